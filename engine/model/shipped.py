"""Models shipped with the program: the bundled one, and its siblings.

Three siblings differ only in KV heads. In the hybrid, two of three layers have a state instead of keys and values.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from msgspec import convert

from engine.model.errors import ModelError
from engine.model.tokenizer import normalize_prompt
from engine.options.refusal import sentence
from engine.trace.records import HeadPattern

_HERE = Path(__file__).parent
BUNDLED = "bundled"
HEADS = "heads.json"


@dataclass(frozen=True, slots=True)
class ShippedModel:
    """Folders of a shipped model. The siblings share the bundled model's tokenizer."""

    folder: Path
    tokenizer_folder: Path = _HERE / "bundled"


SHIPPED = {
    BUNDLED: ShippedModel(_HERE / "bundled"),
    "bundled-mha": ShippedModel(_HERE / "siblings" / "mha"),
    "bundled-gqa": ShippedModel(_HERE / "siblings" / "gqa"),
    "bundled-mqa": ShippedModel(_HERE / "siblings" / "mqa"),
    "bundled-hybrid": ShippedModel(_HERE / "siblings" / "hybrid"),
}


def shipped_model(name: str) -> ShippedModel | None:
    """Return the shipped model of that name, or None if there is none.

    Raises:
        ModelError: this installation lacks its files.
    """
    found = SHIPPED.get(name)
    if found and not (found.folder / "config.json").is_file():
        raise ModelError(sentence("model.missing", name=name))
    return found


def measured_heads(folder: Path) -> list[HeadPattern]:
    """Return the measured patterns of the model's attention heads, if any, first the one that the page opens with."""
    file = folder / HEADS
    if not file.is_file():
        return []
    found = json.loads(file.read_text(encoding="utf-8"))
    patterns = convert(found["patterns"], list[HeadPattern])
    return sorted(patterns, key=lambda pattern: pattern.pattern != found["opening"])


def as_seen(name_or_path: str, text: str) -> str:
    """Return a prompt as the model receives it: shipped models need full-width Chinese punctuation."""
    return normalize_prompt(text) if name_or_path in SHIPPED else text
