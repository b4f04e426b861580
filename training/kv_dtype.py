"""Measure the effect of a quantized cache on logits and loss, on held-out text with the paged engine.

    python -m training.kv_dtype --corpus FOLDER --config training/bundled.toml --model FOLDER --out FILE.json

Each document is computed in one pass, in which all tokens read keys and values from the paged store. The reference is
the same pass with a float32 cache. Differences are over all logits of all scored tokens.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from engine.accounting.memory import stored_bytes_per_token
from engine.model.batch import SequenceSlice
from engine.model.loaded import LoadedModel
from engine.model.runner import ModelRunner
from training.data import Tokens
from training.held_out import measure_held_out

KINDS = ("float32", "bfloat16", "fp8", "int8", "int4")
BLOCK_SIZE = 16


def logits_of(model: LoadedModel, kind: str, ids: Tokens) -> Tensor:
    """Return the logits [n - 1, V] of all tokens but the last."""
    num_blocks = -(-len(ids) // BLOCK_SIZE)
    runner = ModelRunner(model, num_blocks, BLOCK_SIZE, num_blocks * BLOCK_SIZE, kv_cache_dtype=kind)
    sequence = SequenceSlice(0, ids[:-1], 0, [list(range(num_blocks))], samples=True, all_logits=True)
    return runner.execute([sequence]).logits


def measure(model: LoadedModel, documents: list[Tokens], characters: int) -> list[dict[str, Any]]:
    """Return, per dtype, bits per character and the largest and mean absolute logit difference from float32."""
    sums = {kind: {"bits": 0.0, "largest": 0.0, "total": 0.0, "count": 0, "changed": 0} for kind in KINDS}
    for ids in documents:
        exact = logits_of(model, KINDS[0], ids)
        targets = torch.tensor(ids[1:])
        for kind, sum_ in sums.items():
            found = exact if kind == KINDS[0] else logits_of(model, kind, ids)
            difference = (found - exact).abs()
            sum_["bits"] += float(functional.cross_entropy(found, targets, reduction="sum")) / math.log(2)
            sum_["largest"] = max(sum_["largest"], float(difference.max()))
            sum_["total"] += float(difference.sum())
            sum_["count"] += difference.numel()
            sum_["changed"] += int((found.argmax(-1) != exact.argmax(-1)).sum())
    tokens = sum(len(ids) - 1 for ids in documents)
    return [
        {
            "kv_cache_dtype": kind,
            "bytes_per_token": stored_bytes_per_token(model.facts, kind),
            "bits_per_character": sum_["bits"] / characters,
            "largest_logit_difference": sum_["largest"],
            "mean_logit_difference": sum_["total"] / sum_["count"],
            "greedy_choices_changed": sum_["changed"] / tokens,
        }
        for kind, sum_ in sums.items()
    ]


def main() -> None:
    measure_held_out(
        __doc__,
        lambda model, documents, characters: {
            "characters": characters,
            "kinds": measure(model, documents, characters),
        },
    )


if __name__ == "__main__":
    main()
