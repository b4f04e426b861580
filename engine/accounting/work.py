"""Theoretical cost of a step: floating-point operations and bytes moved.

A multiply and an add are two operations. Applying a matrix of n parameters to one token takes 2 n operations (Kaplan et
al., "Scaling Laws", arXiv 2001.08361, table 1). Attention of one token over C keys takes 2 Hq D C operations for the
scores and 2 Hq Dv C for the weighted sum, in every layer (MLA: `mla.py`). Normalization, activation functions and the
softmax are negligible and not counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from engine.accounting.memory import bytes_per_weight, stored_bytes_per_token
from engine.accounting.mla import absorbed_flops, expanded_flops, expansion_flops
from engine.accounting.shape import ModelShape, kv_shapes
from engine.trace.records import BatchEntry, Work

Routing = Literal["even", "same"]  # tokens choose experts uniformly at random, or all choose the same


def attended_keys(start: int, num_tokens: int, window: int | None) -> int:
    """Return the number of visible (query, key) pairs of the queries at [start, start + num_tokens).

    The query at position p attends to min(p + 1, window) keys.
    """
    end = start + num_tokens
    if window is None or end <= window:
        return num_tokens * start + num_tokens * (num_tokens + 1) // 2
    growing = max(0, window - start)  # queries before the window is full
    return growing * start + growing * (growing + 1) // 2 + (num_tokens - growing) * window


def read_keys(start: int, num_tokens: int, window: int | None) -> int:
    """Return the number of distinct keys that these queries attend to. Each is read from the cache once."""
    return start + num_tokens if window is None else min(start + num_tokens, window + num_tokens - 1)


def embedding_params(facts: ModelShape) -> int:
    """Return the parameters of input embedding and output projection: one matrix if tied, otherwise two."""
    return facts.vocab_size * facts.hidden_size * (1 if facts.tie_word_embeddings else 2)


def layer_params(facts: ModelShape) -> int:
    """Return the active parameters except those of the embedding and the output projection."""
    active = facts.num_params if facts.num_active_params is None else facts.num_active_params
    return max(0, active - embedding_params(facts))


def expert_params(facts: ModelShape) -> float:
    """Return the parameters of one expert in all layers, or 0 if there are none or they are unknown.

    The inactive parameters of a token are those of the experts that it did not choose.
    """
    unchosen = facts.num_experts - facts.num_experts_per_tok
    if facts.num_active_params is None or facts.num_experts_per_tok < 1 or unchosen < 1:
        return 0.0
    return (facts.num_params - facts.num_active_params) / unchosen


def experts_read(facts: ModelShape, num_tokens: int) -> float:
    """Return the mean number of experts per layer that a step of T tokens reads: E · (1 − (1 − k / E)^T).

    Each token chooses k of E experts uniformly and independently, so it misses an expert with probability 1 − k / E,
    and the mean follows by linearity. Real routers are less even, so fewer experts are read.
    """
    share = facts.num_experts_per_tok / facts.num_experts
    return facts.num_experts * -math.expm1(num_tokens * math.log1p(-share))


def layer_params_read(facts: ModelShape, num_tokens: int, routing: Routing = "even") -> float:
    """Return the number of layer parameters that a step reads, including only the chosen experts.

    `routing`: with "same", all tokens choose the same experts, which is the minimum; with "even" see `experts_read`. If
    the number of experts is unknown, the minimum is returned.
    """
    minimum = layer_params(facts)
    one = expert_params(facts)
    if not one or routing == "same" or num_tokens < 1:
        return minimum
    return minimum + one * (experts_read(facts, num_tokens) - facts.num_experts_per_tok)


def layer_flops(facts: ModelShape, layer: int, num_keys: int) -> tuple[int, int]:
    """Return the operations of one decoded token in one layer, by the formulas of `StepWork`.

    The first number is for the matrices of an average layer, the second for attention, where `num_keys` is summed over
    all heads.
    """
    if facts.latent_dim:
        attention = int(absorbed_flops(facts).value) * num_keys // facts.num_heads
    else:
        _, head_dim, v_head_dim = kv_shapes(facts)[layer]
        attention = 2 * (head_dim + v_head_dim) * num_keys
    return 2 * layer_params(facts) // facts.num_layers, attention


class _Kind(NamedTuple):
    """Group of identical layers."""

    window: int | None
    layers: int
    span_flops: int  # per query and key in one layer, for a sequence that computes several tokens
    single_flops: int  # per query and key in one layer, for a sequence that computes one token
    numbers: int  # values cached per token in one layer


class StepWork:
    """Work of the steps of one model.

    flops       2 * layer_params * T  +  2 * V * hidden * sampled rows  +  2 * Hq * (D + Dv) * keys, over all layers;
                MLA: see `mla.py`; a sequence that computes one token in the step counts as decode
    weights     each layer parameter and the output projection once, and one embedding row per token; only chosen
                experts (`layer_params_read`)
    KV written  T tokens
    KV read     the distinct keys of each sequence, once per layer; the bytes of a token are divided among layers in
                proportion to the cached values
    """

    def __init__(
        self,
        facts: ModelShape,
        weight_element_bytes: float | None = None,
        kv_bytes_per_token: int | None = None,
        routing: Routing = "even",
        expert_element_bytes: float | None = None,
    ) -> None:
        """Prepare the formulas of a model.

        `weight_element_bytes`: bytes per weight, None: the model's; `kv_bytes_per_token`: in all layers, None: the
        model's; `expert_element_bytes`: bytes per weight of an expert, None: `weight_element_bytes`.
        """
        self._facts = facts
        own = bytes_per_weight(facts)
        self._weight_size = own if weight_element_bytes is None else weight_element_bytes
        self._kv_size = stored_bytes_per_token(facts) if kv_bytes_per_token is None else kv_bytes_per_token
        self._layer_params, self._routing, self._has_experts = layer_params(facts), routing, expert_params(facts) > 0
        self._expert_size = self._weight_size if expert_element_bytes is None else expert_element_bytes
        self._chosen_params = facts.num_experts_per_tok * expert_params(facts)
        self._projection = facts.vocab_size * facts.hidden_size
        shapes = [(heads, keys, values) for heads, keys, values in kv_shapes(facts)]
        kinds = Counter(zip(facts.sliding_windows, shapes, strict=True))
        self._kinds = list[_Kind]()
        for (window, (heads, keys, values)), layers in kinds.items():
            flops = 2 * facts.num_heads * (keys + values)
            self._kinds.append(_Kind(window, layers, flops, flops, heads * (keys + values)))
        self._expansion_flops = 0  # operations per cached token of an earlier step
        if facts.latent_dim:
            spans, single = int(expanded_flops(facts).value), int(absorbed_flops(facts).value)
            self._kinds = [_Kind(kind.window, kind.layers, spans, single, facts.latent_dim) for kind in self._kinds]
            self._expansion_flops = expansion_flops(facts)
        self._numbers = sum(kind.layers * kind.numbers for kind in self._kinds)

    def of(self, batch: Sequence[BatchEntry], left_out: int = 0) -> Work:
        """Return the work of one step. `left_out`: number of products of a weight and a token that it skipped."""
        facts = self._facts
        spans = [(entry.start, len(entry.token_ids)) for entry in batch if len(entry.token_ids) > 1]
        # a single token attends to exactly the keys that are read
        single = [entry.context_len for entry in batch if len(entry.token_ids) == 1]
        num_tokens = len(single) + sum([count for _, count in spans])
        # a decode of several tokens verifies drafts, which needs logits for each token
        sampled = sum([len(entry.token_ids) if entry.phase == "decode" else 1 for entry in batch if entry.samples])
        flops = 2 * (self._layer_params * num_tokens - left_out)
        flops += 2 * self._projection * sampled
        read = expanded = 0
        for window, layers, span_flops, single_flops, numbers in self._kinds:
            single_keys = sum(single if window is None else [min(length, window) for length in single])
            span_keys = sum([read_keys(start, count, window) for start, count in spans])
            flops += layers * single_flops * single_keys
            flops += layers * span_flops * sum([attended_keys(start, count, window) for start, count in spans])
            read += layers * numbers * (single_keys + span_keys)
            expanded += layers * span_keys
        if self._expansion_flops:
            own = facts.num_layers * sum([count for _, count in spans])
            flops += self._expansion_flops * (expanded - own)
        weights = experts = 0.0
        if num_tokens:
            weights = self._layer_params
            if self._has_experts:
                weights -= self._chosen_params
                experts = layer_params_read(facts, num_tokens, self._routing) - weights
            weights += num_tokens * facts.hidden_size
            weights += self._projection if sampled else 0
        return Work(
            num_tokens=num_tokens,
            flops=flops,
            weight_bytes=int(weights * self._weight_size + experts * self._expert_size),
            kv_read_bytes=read * self._kv_size // self._numbers,
            kv_write_bytes=num_tokens * self._kv_size,
        )
