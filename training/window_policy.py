"""Measure the effect of an attention window on the model, with and without attention sinks, on held-out text.

    python -m training.window_policy --corpus FOLDER --config training/bundled.toml --model FOLDER --out FILE.json

Each document is computed in one pass of the paged engine's runner under the policy, as in `EngineConfig`: a query
attends to the first `sinks` tokens and the last `window` tokens, and positions are absolute. No document is longer than
those of training. A document that fits into the window has full attention; `hidden_share` is the share of the keys of
full attention that a policy hides.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from engine.accounting.work import attended_keys
from engine.cache.attention_span import WindowPolicy
from engine.model.batch import SequenceSlice
from engine.model.loaded import LoadedModel
from engine.model.runner import ModelRunner
from training.data import Tokens
from training.held_out import measure_held_out

SIZES = (16, 32, 64, 128)  # maximum number of keys per query, including sinks
SINKS = 4  # the paper's choice, arXiv 2309.17453, section 3.1
BLOCK_SIZE = 16


def policies(sizes: tuple[int, ...] = SIZES, sinks: int = SINKS) -> list[WindowPolicy | None]:
    """Return full attention (None) and, for each size, a window of that many keys without and with sinks."""
    both = [(WindowPolicy(size), WindowPolicy(size - sinks, sinks)) for size in sizes]
    return [None, *(reach for pair in both for reach in pair)]


def bits_of(model: LoadedModel, policy: WindowPolicy | None, ids: Tokens) -> float:
    """Return the bits of all tokens but the first under the policy (None: full attention)."""
    num_blocks = -(-len(ids) // BLOCK_SIZE)
    runner = ModelRunner(model, num_blocks, BLOCK_SIZE, num_blocks * BLOCK_SIZE, policy=policy)
    sequence = SequenceSlice(0, ids[:-1], 0, [list(range(num_blocks))], samples=True, all_logits=True)
    logits = runner.execute([sequence]).logits
    return float(functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="sum")) / math.log(2)


def num_keys(policy: WindowPolicy | None) -> int | None:
    """Return the maximum number of keys per query; None: unlimited."""
    return policy.window + policy.sinks if policy else None


def measure(model: LoadedModel, documents: list[Tokens], characters: int, reaches: list[WindowPolicy | None]) -> Any:
    """Return, per policy, bits per character and the share of the keys of full attention that it hides."""
    counts = [len(ids) - 1 for ids in documents]
    everything = sum(attended_keys(0, count, None) for count in counts)
    return [
        {
            "window": reach.window if reach else None,
            "sinks": reach.sinks if reach else 0,
            "bits_per_character": sum(bits_of(model, reach, ids) for ids in documents) / characters,
            "hidden_share": 1 - sum(attended_keys(0, count, num_keys(reach)) for count in counts) / everything,
        }
        for reach in reaches
    ]


def main() -> None:
    measure_held_out(
        __doc__,
        lambda model, documents, characters: {
            "documents": len(documents),
            "characters": characters,
            "policies": measure(model, documents, characters, policies()),
        },
    )


if __name__ == "__main__":
    main()
