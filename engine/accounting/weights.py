"""Bytes per weight in serving formats, including the scales of quantized formats.

    int4    groups of 128 with a 16-bit scale (GPTQ, arXiv 2210.17323; AWQ, arXiv 2306.00978): 0.5 + 2 / 128
    fp8     checkpoints: blocks of 128 × 128 with a float32 scale (DeepSeek-AI, arXiv 2412.19437, 3.3.2): 1 + 4 / 128²
    mxfp4   groups of 32 with an 8-bit scale (OCP Microscaling Formats 1.0): 0.5 + 1 / 32

fp8 and int8 quantized at load time have a scale per row or matrix, which is less than 0.1 % and ignored. The embedding
and the output projection have 16 bits in all formats.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from engine.accounting.memory import bytes_per_element

Published = Literal["fp8", "mxfp4"]
WEIGHT_DTYPES = ("shipped", "float32", "float16", "bfloat16", "fp8", "int8", "int4")
PUBLISHED: dict[Published, float] = {"fp8": 1 + 4 / 128**2, "mxfp4": 0.5 + 1 / 32}
QUANTIZED = {"fp8": 1.0, "int8": 1.0, "int4": 0.5 + 2 / 128}
PLAIN = {"fp8": 1.0, "int8": 1.0, "int4": 0.5, "mxfp4": 0.5}  # without scales
KEPT_BYTES = 2  # bytes per unquantized weight of a quantized model


class WeightStore(Struct, frozen=True, kw_only=True):
    """Storage of weights.

    `each`: bytes per weight including scales; `unquantized`: number of weights of `KEPT_BYTES` each; `plain`: bytes per
    quantized weight without scales, 0 if no weight is quantized.
    """

    each: float = 2.0
    unquantized: int = 0
    plain: float = 0.0


def served_in(dtype: str, embedding_params: int) -> WeightStore:
    """Return the storage of a model that is quantized to `dtype` at load time. Raises ValueError: unknown dtype."""
    if dtype in QUANTIZED:
        return WeightStore(each=QUANTIZED[dtype], unquantized=embedding_params, plain=PLAIN[dtype])
    return WeightStore(each=float(bytes_per_element(dtype)))


def published_in(form: Published, unquantized: int) -> WeightStore:
    """Return the storage of a checkpoint published in this format with `unquantized` unquantized weights."""
    return WeightStore(each=PUBLISHED[form], unquantized=unquantized, plain=PLAIN[form])
