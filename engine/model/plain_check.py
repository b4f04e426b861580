"""What will serve, against the model's own plain forward pass: a family that computes something else is not served.

    plain       each sequence alone, whole, without a cache, by transformers' eager attention
    served      the same tokens packed beside each other, in chunks, over scattered blocks; eager, compiled, and with
                every other kind of cache

The comparison finds any difference, whatever its cause: a mask that the family builds inside, positions that it counts
itself, queries that look ahead, experts whose choice depends on the other sequences in the batch. Caches that round
keys and values are compared with a reference attention over the same rounded ones, because the plain pass has no cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.model.errors import ModelError

# Bounds on the norm of the difference of two rows of logits, over the norm of the row without its mean. Sums are added
# in another order. In half precision some are rounded elsewhere too, and a router's near tie may choose another expert:
# there the median row is bounded, not the worst.
TOLERANCES = {torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.1}
# A state carries the rounding of every token on, so its bound is measured: the logits of the plain pass move by
# `PlainLogits.rounding` when each number of the embeddings is off by about the last bit of float32. Served and plain
# logits of 13 families with states differ by 0.2 to 3 times that, where the two are the same function.
ROUNDINGS = 32
BLOCK_SIZE = 4
LENGTHS = (8, 5, 5)  # tokens of the three sequences
TABLES = ([5, 0], [3, 1], [2, 4])  # scattered
# (sequence, first position, tokens): two first chunks; a third sequence between their next chunks, one of them a single
# token as in a decode; all three at once; one alone, for which a compiled model has a graph of its own
STEPS = (((0, 0, 4), (1, 0, 2)), ((0, 4, 2), (2, 0, 4), (1, 2, 1)), ((1, 3, 2), (0, 6, 1), (2, 4, 1)), ((0, 7, 1),))


class PlainLogits(NamedTuple):
    """A model's plain logits of a few tokens."""

    token_ids: list[list[int]]  # of each sequence
    logits: list[Tensor]  # of each sequence [T, V], float32 on the CPU
    rounding: float | None = None  # how far rounded embeddings move them, as `Difference.share`; None: not measured


class Difference(NamedTuple):
    """How far served logits are from those that they are compared with."""

    share: float  # of the spread of the logits: of the worst row in float32, of the median row in half precision
    tolerance: float

    @property
    def is_rounding(self) -> bool:
        """Whether the difference is no more than rounding; False for NaN."""
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


def with_rounding(module: Any, plain: PlainLogits) -> PlainLogits:
    """The same logits, with how far they move when the embeddings are rounded otherwise; unchanged in half precision.

    Raises:
        ModelError: it does not compute any.
    """
    if next(module.parameters()).dtype != torch.float32:
        return plain
    generator = torch.Generator().manual_seed(0)

    def rounded(_: Any, __: Any, out: Tensor) -> Tensor:
        noise = torch.randn(out.shape, generator=generator).to(out.device)
        return out * (1 + torch.finfo(torch.float32).eps * noise)

    hook = module.get_input_embeddings().register_forward_hook(rounded)
    try:
        moved = plain_logits(module)
    finally:
        hook.remove()
    return plain._replace(rounding=compare_logits(moved.logits, plain.logits, torch.float32).share)


def compare_logits(served: list[Tensor], expected: list[Tensor], dtype: torch.dtype) -> Difference:
    """The difference of sequences' logits [T, V]; `dtype`: what they were computed in."""
    rows, wanted = torch.cat(served), torch.cat(expected)
    spread = (wanted - wanted.mean(dim=-1, keepdim=True)).norm(dim=-1)
    shares = (rows - wanted).norm(dim=-1) / spread.clamp_min(torch.finfo(torch.float32).tiny)
    share = shares.max() if dtype == torch.float32 else shares.median()
    return Difference(float(share), TOLERANCES.get(dtype, 0.1))


def _tokens(config: Any, vocab_size: int) -> list[list[int]]:
    """Token ids for every sequence: any but those that the configuration names (one may stand for an image)."""
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
