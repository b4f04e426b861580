"""Residual stream at one position: the contribution of each layer, and the logit lens."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from msgspec import Struct

from engine.trace.limits import Int
from engine.trace.records import Candidate

ProjectionPart = Literal["q", "k", "v"]
MissingPart = Literal["apart", "experts", "matrices", "head", "logits"]


class ResidualStream(Struct, frozen=True, kw_only=True):
    """Residual stream of the last token of a forward pass without a cache: norms of all decoder layers, and vectors of
    one layer.

    `vectors` are float32 [n]: `embedding`, the input of the first layer, and those of layer `layer`: `before`,
    `attention_in`, `attention`, `between`, `ffn_in`, `hidden`, `ffn` and `after`, with before + attention = between and
    between + ffn = after. Vectors that the model does not have in this form are omitted, with a reason in `missing`:

    apart      not every layer adds attention and feed-forward to the residual
    experts    each of a token's experts has its own hidden activation
    matrices   the feed-forward block has no observable matrices
    head       the final norm and the output head were not found
    logits     the final norm and the output head, applied to the last residual, do not yield the logits
    """

    position: Int
    layer: Int
    is_parallel: bool  # the feed-forward block reads `before`, like attention, instead of `between`
    vectors: dict[str, np.ndarray[Any, Any]]
    norms: np.ndarray[Any, Any]  # [layers, 5], L2 norms of before, attention, between, ffn and after; 0 if missing
    lens: list[list[Candidate]]  # three most probable next tokens, for the embedding and after each layer
    layer_lens: list[list[Candidate]]  # the same after layer `layer`, at each requested position
    missing: list[MissingPart]


class Projection(Struct, frozen=True, kw_only=True):
    """Projection from attention's input x to a head's query, key or value: weight · x + bias, float32."""

    weight: np.ndarray[Any, Any]  # [D, hidden size]
    bias: np.ndarray[Any, Any]  # [D]; zeros without a bias
