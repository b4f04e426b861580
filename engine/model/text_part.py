"""Text part of models that also read pictures or sounds; no other part is served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def idle_parts_dropped(module: Any) -> Iterator[list[str]]:
    """Drop the parts of a model of several kinds of input that tokens inside the `with` do not run, with their weights.

    A part is a child of the model or of its base: the encoder of pictures, what projects its output. Models of text
    alone keep all they have. Yields the names of the parts, which are known at the end.
    """
    dropped: list[str] = []
    if module.config.get_text_config() is module.config:
        yield dropped
        return
    ran: set[nn.Module] = set()

    def note(of: nn.Module) -> Callable[..., None]:
        return lambda *_: ran.add(of)

    owners = dict.fromkeys((module, module.base_model))
    parts = [(owner, name, part) for owner in owners for name, part in owner.named_children() if part not in owners]
    handles = [one.register_forward_hook(note(part)) for *_, part in parts for one in part.modules()]
    try:
        yield dropped
    finally:
        for handle in handles:
            handle.remove()
    for owner, name, part in parts:
        if part not in ran:
            setattr(owner, name, None)
            dropped.append(name)
