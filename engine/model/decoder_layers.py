"""Decoder layers of a model of any family."""

from __future__ import annotations

from typing import Any

from torch import nn


def decoder_layers(module: Any) -> list[nn.Module]:
    """Return the decoder layers: the module list with the configured number of layers that contains attention."""
    count = module.config.get_text_config().num_hidden_layers
    lists = (part for part in module.modules() if isinstance(part, nn.ModuleList) and len(part) == count)
    return next((list(found) for found in lists if any(map(attends, found))), [])


def attends(module: nn.Module) -> bool:
    """Return whether a module is or contains attention."""
    return any("layer_idx" in part.__dict__ for part in module.modules())
