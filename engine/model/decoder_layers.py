"""Decoder layers of a model, found without naming a family."""

from __future__ import annotations

from typing import Any

from torch import nn


def decoder_layers(module: Any) -> list[nn.Module]:
    """Return the decoder layers: the list of as many modules as the configuration has layers, with attention in it."""
    count = module.config.get_text_config().num_hidden_layers
    lists = (part for part in module.modules() if isinstance(part, nn.ModuleList) and len(part) == count)
    return next((list(found) for found in lists if any(map(attends, found))), [])


def attends(module: nn.Module) -> bool:
    """Return whether a module is attention, or has it."""
    return any("layer_idx" in part.__dict__ for part in module.modules())
