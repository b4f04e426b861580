"""The reference pages of the documentation agree with the code."""

import re

import pytest

import kvtheater
from tools.reference import FOLDER, PAGES, written


@pytest.mark.parametrize("page", PAGES)
def test_a_reference_page_is_up_to_date(page: str) -> None:
    assert (FOLDER / page).read_text(encoding="utf-8") == written(page), "run `python -m tools.reference`"


def test_the_python_reference_lists_exactly_the_public_names() -> None:
    assert re.findall(r"^## (\w+)$", (FOLDER / "python.md").read_text(encoding="utf-8"), re.M) == kvtheater.__all__
