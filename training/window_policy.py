"""Measure the effect of an attention window on the model, with and without attention sinks, on held-out text.

    python -m training.window_policy --corpus FOLDER --config training/bundled.toml --model FOLDER --out FILE.json

Every document is computed in one pass through the paged engine's runner under the policy, as `EngineConfig` applies it:
each query sees the first `sinks` tokens and the last `window` ones, positions are absolute. A document is never longer
than those that the model was trained on, and one that fits the window sees what full attention sees; `hidden_share`
says how much of the full attention's keys a policy hid.
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

SIZES = (16, 32, 64, 128)  # keys that a query sees at most, sinks included
SINKS = 4  # the paper's choice, arXiv 2309.17453, section 3.1
BLOCK_SIZE = 16


def policies(sizes: tuple[int, ...] = SIZES, sinks: int = SINKS) -> list[WindowPolicy | None]:
    """Full attention; then for each size a window of that many keys, and the same number with `sinks` of them first."""
    both = [(WindowPolicy(size), WindowPolicy(size - sinks, sinks)) for size in sizes]
    return [None, *(reach for pair in both for reach in pair)]


def bits_of(model: LoadedModel, policy: WindowPolicy | None, ids: Tokens) -> float:
    """Bits that the model needs for every token but the first, under the policy (None: full attention)."""
    num_blocks = -(-len(ids) // BLOCK_SIZE)
    runner = ModelRunner(model, num_blocks, BLOCK_SIZE, num_blocks * BLOCK_SIZE, policy=policy)
    whole = SequenceSlice(0, ids[:-1], 0, [list(range(num_blocks))], samples=True, all_logits=True)
    logits = runner.execute([whole]).logits
    return float(functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="sum")) / math.log(2)


def num_keys(policy: WindowPolicy | None) -> int | None:
    """Keys that a query sees at most; None: all."""
    return policy.window + policy.sinks if policy else None


def measure(model: LoadedModel, documents: list[Tokens], characters: int, reaches: list[WindowPolicy | None]) -> Any:
    """Per policy: bits per character, and the share of the keys seen by full attention that it hid."""
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
    """Measure a folder and write JSON."""
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
