"""Tokenizers for counting prompt tokens, by their names for users."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.model.gguf_file import is_gguf
from engine.model.shipped import BUNDLED, SHIPPED

MAX_NAME = 60  # characters


def named(given: str) -> tuple[str, str]:
    """Return the name and the model of "NAME=MODEL", or of "MODEL", which is its own name."""
    name, separator, model = given.partition("=")
    return (name, model) if separator and not Path(given).exists() else (given, given)


def offered(models: Sequence[str], names: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """Return tokenizers by name: of `models`, which are served as `names`, and of `given`, each "NAME=MODEL".

    Raises:
        ValueError: one of `given` has no name, the name of another, or a folder without a tokenizer; one sentence.
    """
    served = zip(names, models, strict=True)
    found = {name: str(Path(model).expanduser()) for name, model in served if name not in SHIPPED}
    for one in given:
        name, model = named(one)
        if name == model or not name.strip() or not name.isprintable() or len(name) > MAX_NAME:
            raise ValueError(f"{one} is not NAME=MODEL with a name of 1 to {MAX_NAME} characters")
        if name in found or name == BUNDLED:
            raise ValueError(f"two tokenizers are called {name}")
        path = Path(model).expanduser()
        if model.startswith((".", "/", "~")) and not is_gguf(model) and not (path / "tokenizer.json").is_file():
            raise ValueError(f"{model} has no tokenizer.json")
        found[name] = str(path) if path.exists() else model
    return found
