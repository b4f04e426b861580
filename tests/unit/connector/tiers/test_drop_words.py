"""Texts for the reasons of dropped blocks, in every language."""

import json
from pathlib import Path
from typing import get_args

import pytest

from engine.connector.tiers.counters import DropReason

WORDS = Path(__file__).parents[4] / "static/js/panels/memory"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_drop_reason_has_a_text(language: str) -> None:
    texts = json.loads((WORDS / f"lazy.{language}.json").read_text(encoding="utf-8"))
    prefix = "tiers.why."
    worded = {key.removeprefix(prefix) for key in texts if key.startswith(prefix)}
    assert worded == set(get_args(DropReason))
