"""Residual stream of one position of a sequence: what each layer adds to it, and what it says of the next token."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from msgspec import Struct

from engine.trace.limits import Int
from engine.trace.records import Candidate

ProjectionPart = Literal["q", "k", "v"]
MissingPart = Literal["apart", "experts", "matrices", "head", "logits"]


class ResidualStream(Struct, frozen=True, kw_only=True):
    """Residual stream of the last token of a pass without a cache, in every decoder layer; vectors of one layer.

    `vectors` are float32 [n]: `embedding`, as it enters the first layer; of layer `layer` `before`, `attention_in`,
    `attention`, `between`, `ffn_in`, `hidden`, `ffn`, `after`. `attention` and `ffn` are what is added:
    before + attention = between, between + ffn = after. A part that the model's layers do not have in this form is left
    out, and `missing` says why:

    apart      not every layer adds attention and feed-forward to the residual
    experts    a token's experts each have a hidden activation of their own
    matrices   the feed-forward block has no matrices of its own that could be observed
    head       the final norm and the output head were not found
    logits     the final norm and the output head, applied to the last residual, do not give the logits
    """

    position: Int
    layer: Int
    is_parallel: bool  # the feed-forward block reads `before`, as attention does, in place of `between`
    vectors: dict[str, np.ndarray[Any, Any]]
    norms: np.ndarray[Any, Any]  # [layers, 5], L2 of before, attention, between, ffn and after; 0 where one is missing
    lens: list[list[Candidate]]  # the three most probable next tokens of the embedding, then after each layer
    layer_lens: list[list[Candidate]]  # after layer `layer`, at each of the last positions that were asked for
    missing: list[MissingPart]


class Projection(Struct, frozen=True, kw_only=True):
    """Weights that make one head's query, key or value of what attention reads: weight · x + bias, float32."""

    weight: np.ndarray[Any, Any]  # [D, hidden size]
    bias: np.ndarray[Any, Any]  # [D]; zeros: there is none
