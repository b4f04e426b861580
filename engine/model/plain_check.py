"""Comparison of the served paths with transformers' plain forward pass; a model whose results differ is not served.

    plain       each complete sequence separately, without a cache, with transformers' eager attention
    served      the same tokens packed in chunks over scattered blocks; eager, compiled, and with every other kind of
                KV cache

The comparison detects differences of any cause, for example a mask that the model builds, positions that it counts
itself, queries that see later keys, or experts chosen depending on other sequences in the batch. Caches that round keys
and values are compared with a reference attention over the same rounded values, because the plain pass has no cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.model.errors import ModelError
from engine.options.refusal import sentence

# Bounds on the norm of the difference of two rows of logits, over the norm of the row without its mean. The paths
# differ in the order of summation. In half precision roundings differ too, and a router's near tie may choose another
# expert, so there the median row is bounded, not the worst row.
TOLERANCES = {torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.1}
# A state accumulates the rounding of every token, so its bound is measured: `PlainLogits.rounding` is the change of the
# plain logits when each number of the embeddings changes by about the last bit of float32. In 13 model families with
# states, correct served logits differ from plain ones by 0.2 to 3 times that.
ROUNDINGS = 32
BLOCK_SIZE = 4
LENGTHS = (8, 5, 5)  # number of tokens of the three sequences
TABLES = ([5, 0], [3, 1], [2, 4])  # their scattered block tables
# Steps of (sequence, first position, tokens): two first chunks; a third sequence between the next chunks, one of which
# is a single token as in a decode; all three together; a single token, for which a compiled model has its own graph.
STEPS = (((0, 0, 4), (1, 0, 2)), ((0, 4, 2), (2, 0, 4), (1, 2, 1)), ((1, 3, 2), (0, 6, 1), (2, 4, 1)), ((0, 7, 1),))


class PlainLogits(NamedTuple):
    """Plain logits of a model for a few tokens."""

    token_ids: list[list[int]]  # per sequence
    logits: list[Tensor]  # per sequence [T, V], float32 on the CPU
    rounding: float | None = None  # their `Difference.share` under rounded embeddings; None: not measured


class Difference(NamedTuple):
    """Difference of served logits from the expected ones."""

    share: float  # relative to the logits' spread: of the worst row in float32, of the median row in half precision
    tolerance: float

    @property
    def is_rounding(self) -> bool:
        """Whether the difference is within the tolerance; False for NaN."""
        return self.share <= self.tolerance


def plain_logits(module: Any) -> PlainLogits:
    """Return an unmodified transformers model's logits for a few tokens.

    Raises:
        ModelError: the model does not compute logits for every token.
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
        raise ModelError(sentence("model.tokens_alone", name=type(module).__name__, reason=reason)) from error
    finally:
        module.set_attn_implementation(before)
    if any(rows.shape[:2] != (1, len(ids)) for rows, ids in zip(logits, token_ids, strict=True)):
        raise ModelError(sentence("model.logits", name=type(module).__name__))
    return PlainLogits(token_ids, [rows[0].float().cpu() for rows in logits])


def with_rounding(module: Any, plain: PlainLogits) -> PlainLogits:
    """Return `plain` with `rounding` measured, for a model that computes in float32.

    Raises:
        ModelError: see `plain_logits`.
    """
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
    """Return the difference of the sequences' logits [T, V], which were computed in `dtype`."""
    rows, reference = torch.cat(served), torch.cat(expected)
    spread = (reference - reference.mean(dim=-1, keepdim=True)).norm(dim=-1)
    shares = (rows - reference).norm(dim=-1) / spread.clamp_min(torch.finfo(torch.float32).tiny)
    share = shares.max() if dtype == torch.float32 else shares.median()
    return Difference(float(share), TOLERANCES.get(dtype, 0.1))


def _tokens(config: Any, vocab_size: int) -> list[list[int]]:
    """Return token ids for every sequence, without special ids of the configuration, which may represent an image."""
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
