"""The reference pages of the documentation are what the code says."""

import re

import pytest

import kvtheater
from tools.reference import FOLDER, PAGES, written


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_current(page: str) -> None:
    assert (FOLDER / page).read_text(encoding="utf-8") == written(page), "run `python -m tools.reference`"


def test_the_page_of_the_python_interface_has_each_public_name_and_no_other() -> None:
    assert re.findall(r"^## (\w+)$", (FOLDER / "python.md").read_text(encoding="utf-8"), re.M) == kvtheater.__all__
