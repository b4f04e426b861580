"""Layout digest of an engine's blocks, which identifies their format for other engines."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import torch
import transformers

import engine
from engine.cache.attention_span import reaches_of
from engine.cache.block_groups import GroupPlan
from engine.config import EngineConfig
from engine.connector.tiers.keys import GroupFacts, LayoutFacts, NamedBytes, layout_digest, weights_digest
from engine.model.loaded import LoadedModel

# fields of a configuration that do not affect keys and values, or that LayoutFacts has elsewhere
NAMES = ("_name_or_path", "name_or_path", "transformers_version", "torch_dtype", "dtype", "architectures")

_digests: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()  # module -> digest of its weights


def layout_of(
    model: LoadedModel, config: EngineConfig, plans: Sequence[GroupPlan], bytes_per_block: Sequence[int]
) -> bytes:
    """Return the layout digest of an engine. `config`: resolved configuration. `bytes_per_block`: by group.

    The first call for a model reads its weights, which takes about a second per GiB.
    """
    reaches = reaches_of(model.facts.sliding_windows, config.policy)
    fields = {name: value for name, value in model.module.config.to_dict().items() if name not in NAMES}
    return layout_digest(
        LayoutFacts(
            weights=_weights(model.module),
            config=fields,
            numerics={
                "dtype": str(model.dtype),
                "device": model.device.type,
                "kvtheater": engine.__version__,
                "torch": torch.__version__,
                "transformers": transformers.__version__,
            },
            kv_cache_dtype=config.kv_cache_dtype,
            block_size=config.block_size,
            groups=[
                GroupFacts(plan.layers, [(reaches[i].window, reaches[i].sinks) for i in plan.layers], size)
                for plan, size in zip(plans, bytes_per_block, strict=True)
            ],
        )
    )


def _weights(module: Any) -> bytes:
    if module not in _digests:
        _digests[module] = weights_digest(_tensors(module))
    return _digests[module]


def _tensors(module: Any) -> Iterator[NamedBytes]:
    """Yield the bytes of every parameter and buffer in memory, including buffers that checkpoints do not have."""
    tensors = chain(module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False))
    for name, tensor in tensors:
        data = tensor.detach().reshape(-1).contiguous().view(torch.uint8).cpu().numpy()
        yield NamedBytes(name, str(tensor.dtype), list(tensor.shape), memoryview(data))
