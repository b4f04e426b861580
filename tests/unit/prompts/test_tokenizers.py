"""Tokenizers of the page of prompts, by their names on the command line."""

from pathlib import Path

import pytest

from app.prompts.tokenizers import parse_tokenizer, tokenizers_by_name
from engine.model.shipped import SHIPPED

BUNDLED = str(SHIPPED["bundled"].folder)


def test_a_name_stands_before_its_model_and_a_folder_may_have_an_equals_sign(tmp_path: Path) -> None:
    folder = tmp_path / "a=b"
    folder.mkdir()
    assert parse_tokenizer(f"mine={folder}") == ("mine", str(folder))
    assert parse_tokenizer(str(folder)) == (str(folder), str(folder))
    assert parse_tokenizer("Qwen/Qwen3-0.6B") == ("Qwen/Qwen3-0.6B",) * 2


def test_served_models_are_offered_and_names_are_their_own(tmp_path: Path) -> None:
    assert tokenizers_by_name(["bundled", "hub/one"], ["bundled", "one"], [f"mine={BUNDLED}"]) == {
        "one": "hub/one",
        "mine": BUNDLED,
    }
    for given, reason in (
        (BUNDLED, "is not NAME=MODEL"),
        (f"={BUNDLED}", "is not NAME=MODEL"),
        (f"bundled={BUNDLED}", "two tokenizers are named bundled"),
        (f"one={BUNDLED}", "two tokenizers are named one"),
        (f"empty={tmp_path}", "has no tokenizer.json"),
        (f"{'x' * 61}={BUNDLED}", "name of 1 to 60 characters"),
    ):
        with pytest.raises(ValueError, match=reason):
            tokenizers_by_name(["hub/one"], ["one"], [given])
