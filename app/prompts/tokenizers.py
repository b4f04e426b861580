"""Tokenizers for counting prompt tokens, by the names shown to users."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.model.gguf_file import is_gguf
from engine.model.shipped import BUNDLED, SHIPPED

MAX_NAME = 60  # characters


def parse_tokenizer(given: str) -> tuple[str, str]:
    """Return the name and the model of "NAME=MODEL". "MODEL" without a name is named after itself."""
    name, separator, model = given.partition("=")
    return (name, model) if separator and not Path(given).exists() else (given, given)


def tokenizers_by_name(models: Sequence[str], names: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """Return the models of tokenizers by name.

    Args:
        models, names: served models and their names.
        given: further models, each as "NAME=MODEL".

    Raises:
        ValueError: one of `given` has no name, a duplicate name, or a folder without a tokenizer; one sentence.
    """
    served = zip(names, models, strict=True)
    found = {name: str(Path(model).expanduser()) for name, model in served if name not in SHIPPED}
    for one in given:
        name, model = parse_tokenizer(one)
        if name == model or not name.strip() or not name.isprintable() or len(name) > MAX_NAME:
            raise ValueError(f"{one} is not NAME=MODEL with a name of 1 to {MAX_NAME} characters")
        if name in found or name == BUNDLED:
            raise ValueError(f"two tokenizers are named {name}")
        path = Path(model).expanduser()
        if model.startswith((".", "/", "~")) and not is_gguf(model) and not (path / "tokenizer.json").is_file():
            raise ValueError(f"{model} has no tokenizer.json")
        found[name] = str(path) if path.exists() else model
    return found
