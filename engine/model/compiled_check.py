"""A compiled forward pass against the eager one, before anybody is served by it: compilers and devices differ."""

from __future__ import annotations

import torch

from engine.model.batch import SequenceSlice
from engine.model.compiled import CompiledForward
from engine.model.loader import LoadedModel
from engine.model.runner import ModelRunner

# Of the largest logit. Sums come in another order; in half precision some of them are rounded at other places too.
TOLERANCES = {torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.1}
# (sequence, first position, tokens): two prompts, a step of both, one alone, which has a graph of its own
STEPS = [[(0, 0, 6), (1, 0, 3)], [(0, 6, 1), (1, 3, 1)], [(0, 7, 1)]]
BLOCK_SIZE = 4


def check_compiled(model: LoadedModel, compiled: CompiledForward) -> None:
    """Compute a few steps both ways, on pools of their own.

    Raises:
        RuntimeError: the logits are not the same.
    """
    runners = [ModelRunner(model, 3, BLOCK_SIZE, max_model_len=2 * BLOCK_SIZE) for _ in range(2)]
    runners[1].compiled = compiled
    tables = [[2, 0], [1]]  # scattered
    for step in STEPS:
        slices = [
            SequenceSlice(
                seq_id, [_token(model, seq_id, start + i) for i in range(count)], start, [tables[seq_id]], True
            )
            for seq_id, start, count in step
        ]
        eager, fast = (runner.execute(slices).logits for runner in runners)
        worst = float((eager - fast).abs().max() / eager.abs().max())
        if not worst <= TOLERANCES.get(model.dtype, 0.1):  # NaN too
            raise RuntimeError(f"its logits differ from the eager ones by {worst:.2g} of the largest")


def _token(model: LoadedModel, seq_id: int, position: int) -> int:
    return (7919 * (position + 1) + 104729 * seq_id) % model.facts.vocab_size
