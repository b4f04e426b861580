"""What will serve, against the model's own plain forward pass: a family that computes something else is not served.

    plain       each sequence alone, whole, without a cache, by transformers' eager attention
    served      the same tokens packed beside each other, in chunks, over scattered blocks; eager, compiled, and with
                every other kind of cache

A mask that is built inside, positions that are counted elsewhere, queries that look ahead, experts that hang on who
else is in the batch: whatever differs, differs here, known to anybody or not. Caches that round keys and values are
compared with a reference attention over the same rounded ones, as the plain pass has none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.model.errors import ModelError

# Of what is left of a row's logits without their mean, in the length of the difference. Sums come in another order; in
# half precision some are rounded at other places, and an expert that was chosen by a hair may be another one: there the
# middle row is looked at, not the worst.
TOLERANCES = {torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.1}
BLOCK_SIZE = 4
LENGTHS = (8, 5, 5)  # tokens of the three sequences
TABLES = ([5, 0], [3, 1], [2, 4])  # scattered
# (sequence, first position, tokens): two beginnings; a third sequence between their next chunks, of which one has the
# form of a decode; all at once; one alone, for which a compiled model has a graph of its own
STEPS = (((0, 0, 4), (1, 0, 2)), ((0, 4, 2), (2, 0, 4), (1, 2, 1)), ((1, 3, 2), (0, 6, 1), (2, 4, 1)), ((0, 7, 1),))


class PlainLogits(NamedTuple):
    """What a model says of some tokens by itself."""

    token_ids: list[list[int]]  # of each sequence
    logits: list[Tensor]  # of each sequence [T, V], float32 on the CPU


class Difference(NamedTuple):
    """How far what is served is from what it is compared with."""

    share: float  # of the spread of the logits: of the worst row in float32, of the middle one in half precision
    tolerance: float

    @property
    def is_rounding(self) -> bool:
        """False for what is not a number too."""
        return self.share <= self.tolerance


def plain_logits(module: Any) -> PlainLogits:
    """A transformers model's own logits of a few tokens, before anything of it is changed.

    Raises:
        ModelError: it does not compute any.
    """
    config = module.config.get_text_config()
    token_ids = _tokens(module.config, config.vocab_size)
    device = next(module.parameters()).device
    before = config._attn_implementation
    module.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            logits = [module(input_ids=torch.tensor([ids], device=device), use_cache=False).logits for ids in token_ids]
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"{type(module).__name__} does not compute a next token from tokens alone: its code ends with “{reason}”"
        ) from error
    finally:
        module.set_attn_implementation(before)
    if any(rows.shape[:2] != (1, len(ids)) for rows, ids in zip(logits, token_ids, strict=True)):
        raise ModelError(f"{type(module).__name__} does not compute logits for every token")
    return PlainLogits(token_ids, [rows[0].float().cpu() for rows in logits])


def compare_logits(served: list[Tensor], expected: list[Tensor], dtype: torch.dtype) -> Difference:
    """Of sequences' logits [T, V]; `dtype`: what they were computed in."""
    rows, wanted = torch.cat(served), torch.cat(expected)
    spread = (wanted - wanted.mean(dim=-1, keepdim=True)).norm(dim=-1)
    shares = (rows - wanted).norm(dim=-1) / spread.clamp_min(torch.finfo(torch.float32).tiny)
    share = shares.max() if dtype == torch.float32 else shares.median()
    return Difference(float(share), TOLERANCES.get(dtype, 0.1))


def _tokens(config: Any, vocab_size: int) -> list[list[int]]:
    """Token ids for every sequence: any but those that a configuration names, which may stand for an image."""
    named = {value for part in (config, config.get_text_config()) for value in _named_ids(part)}
    ordinary = [i for i in range(min(vocab_size, 4096)) if i not in named] or [0]
    return [
        [ordinary[(7919 * (position + 1) + 104729 * index) % len(ordinary)] for position in range(length)]
        for index, length in enumerate(LENGTHS)
    ]


def _named_ids(config: Any) -> list[int]:
    settings = config.to_dict()
    found = [value for name, value in settings.items() if name.endswith(("token_id", "token_index", "token_ids"))]
    return [i for value in found for i in (value if isinstance(value, list) else [value]) if isinstance(i, int)]
