"""The models that come with the program: the bundled one, and its siblings that differ in their KV heads alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from msgspec import convert

from engine.model.errors import ModelError
from engine.model.tokenizer import normalize_prompt
from engine.trace.records import HeadPattern

_HERE = Path(__file__).parent
BUNDLED = "bundled"
HEADS = "heads.json"


@dataclass(frozen=True, slots=True)
class ShippedModel:
    """Where a shipped model lies. The siblings share the bundled model's tokenizer."""

    folder: Path
    tokenizer_folder: Path = _HERE / "bundled"


SHIPPED = {
    BUNDLED: ShippedModel(_HERE / "bundled"),
    "bundled-mha": ShippedModel(_HERE / "siblings" / "mha"),
    "bundled-gqa": ShippedModel(_HERE / "siblings" / "gqa"),
    "bundled-mqa": ShippedModel(_HERE / "siblings" / "mqa"),
}


def shipped_model(name: str) -> ShippedModel | None:
    """The shipped model of that name, None if the name is not one of theirs.

    Raises:
        ModelError: this installation lacks its files.
    """
    found = SHIPPED.get(name)
    if found and not (found.folder / "config.json").is_file():
        raise ModelError(f"the model {name} is missing from this installation; name another model")
    return found


def measured_heads(folder: Path) -> list[HeadPattern]:
    """What was measured of the model's attention heads, the one to open a page on first; empty if nothing was."""
    file = folder / HEADS
    if not file.is_file():
        return []
    found = json.loads(file.read_text(encoding="utf-8"))
    patterns = convert(found["patterns"], list[HeadPattern])
    return sorted(patterns, key=lambda pattern: pattern.pattern != found["opening"])


def as_seen(name_or_path: str, text: str) -> str:
    """A text as the model will see it: the shipped ones know Chinese punctuation in full width only."""
    return normalize_prompt(text) if name_or_path in SHIPPED else text
