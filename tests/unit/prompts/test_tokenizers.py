"""Named tokenizers of the page of prompts."""

from pathlib import Path

import pytest

from app.prompts.tokenizers import parse_tokenizer, tokenizers_by_name
from engine.model.shipped import SHIPPED

BUNDLED = str(SHIPPED["bundled"].folder)


def test_a_tokenizer_is_given_as_name_equals_model(tmp_path: Path) -> None:
    folder = tmp_path / "a=b"
    folder.mkdir()
    assert parse_tokenizer(f"mine={folder}") == ("mine", str(folder))
    assert parse_tokenizer(str(folder)) == (str(folder), str(folder))
    assert parse_tokenizer("Qwen/Qwen3-0.6B") == ("Qwen/Qwen3-0.6B",) * 2


def test_served_models_are_offered_and_names_must_be_unique(tmp_path: Path) -> None:
    assert tokenizers_by_name(["bundled", "hub/one"], ["bundled", "one"], [f"mine={BUNDLED}"]) == {
        "one": "hub/one",
        "mine": BUNDLED,
    }
    for argument, reason in (
        (BUNDLED, "is not NAME=MODEL"),
        (f"={BUNDLED}", "is not NAME=MODEL"),
        (f"bundled={BUNDLED}", "two tokenizers are named bundled"),
        (f"one={BUNDLED}", "two tokenizers are named one"),
        (f"empty={tmp_path}", "has no tokenizer.json"),
        (f"{'x' * 61}={BUNDLED}", "name of 1 to 60 characters"),
    ):
        with pytest.raises(ValueError, match=reason):
            tokenizers_by_name(["hub/one"], ["one"], [argument])
