"""Named tokenizers of the page of prompts."""

from pathlib import Path

import pytest

from app.prompts.tokenizers import named, offered
from engine.model.shipped import SHIPPED

BUNDLED = str(SHIPPED["bundled"].folder)


def test_a_tokenizer_is_given_as_name_equals_model(tmp_path: Path) -> None:
    folder = tmp_path / "a=b"
    folder.mkdir()
    assert named(f"mine={folder}") == ("mine", str(folder))
    assert named(str(folder)) == (str(folder), str(folder))
    assert named("Qwen/Qwen3-0.6B") == ("Qwen/Qwen3-0.6B",) * 2


def test_served_models_are_offered_and_names_must_be_unique(tmp_path: Path) -> None:
    assert offered(["bundled", "hub/one"], ["bundled", "one"], [f"mine={BUNDLED}"]) == {
        "one": "hub/one",
        "mine": BUNDLED,
    }
    for argument, reason in (
        (BUNDLED, "is not NAME=MODEL"),
        (f"={BUNDLED}", "is not NAME=MODEL"),
        (f"bundled={BUNDLED}", "two tokenizers are called bundled"),
        (f"one={BUNDLED}", "two tokenizers are called one"),
        (f"empty={tmp_path}", "has no tokenizer.json"),
        (f"{'x' * 61}={BUNDLED}", "name of 1 to 60 characters"),
    ):
        with pytest.raises(ValueError, match=reason):
            offered(["hub/one"], ["one"], [argument])
