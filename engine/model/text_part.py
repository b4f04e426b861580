"""Text part of multimodal models; no other part is served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def drop_unused_parts(module: Any) -> Iterator[list[str]]:
    """Drop the parts of a multimodal model that do not run inside the `with`, with their weights.

    A part is a child of the model or of its base, for example the image encoder or its projector. Text models are not
    changed. Yields the list of the parts' names, which is filled at the end.
    """
    dropped: list[str] = []
    if module.config.get_text_config() is module.config:
        yield dropped
        return
    ran: set[nn.Module] = set()

    def record(part: nn.Module) -> Callable[..., None]:
        return lambda *_: ran.add(part)

    owners = dict.fromkeys((module, module.base_model))
    parts = [(owner, name, part) for owner in owners for name, part in owner.named_children() if part not in owners]
    handles = [one.register_forward_hook(record(part)) for *_, part in parts for one in part.modules()]
    try:
        yield dropped
    finally:
        for handle in handles:
            handle.remove()
    for owner, name, part in parts:
        if part not in ran:
            setattr(owner, name, None)
            dropped.append(name)
