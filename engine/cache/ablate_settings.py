"""Settings of an ablation: the heads and layers that are switched off, each from a given trace record on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from engine.options.refusal import sentence
from engine.trace.records import ModelFacts

_PART = re.compile(r"(\d+)(?:\.(\d+))?@(\d+)")


class Off(NamedTuple):
    """Query head of a layer, or all heads (None), that is switched off once the log has `record` records."""

    layer: int
    head: int | None
    record: int

    def __str__(self) -> str:
        return f"{self.layer}{'' if self.head is None else f'.{self.head}'}@{self.record}"


def read_ablation(text: str | None) -> list[Off]:
    """Parse `EngineConfig.ablate`: items `LAYER.HEAD@RECORD` or `LAYER@RECORD`, separated by spaces.

    Raises:
        ValueError: an item does not have this form.
    """
    found = []
    for part in (text or "").split():
        if not (match := _PART.fullmatch(part)):
            raise ValueError(sentence("ablate.form", part=repr(part)))
        layer, head, record = match.groups()
        found.append(Off(int(layer), None if head is None else int(head), int(record)))
    return found


def refusal(offs: Sequence[Off], facts: ModelFacts) -> str:
    """Return a sentence that says why `offs` cannot be switched off in a model, or "" if they can."""
    if facts.latent_dim or facts.state_bytes:
        stored = sentence("kept.latents" if facts.latent_dim else "kept.states")
        return sentence("ablate.model", name=facts.name, kept=stored)
    for off in offs:
        if off.layer >= facts.num_layers or (off.head or 0) >= facts.num_heads:
            last = f"{facts.num_layers - 1}.{facts.num_heads - 1}"
            return sentence("ablate.part", part=str(off).partition("@")[0], name=facts.name, last=last)
    return ""
