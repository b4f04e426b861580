"""Theoretical cost of a step: floating-point operations and bytes moved.

A multiply and an add are two operations. A matrix of n parameters applied to one token is 2 n operations (Kaplan et
al., "Scaling Laws", arXiv 2001.08361, table 1); attention of one token over C keys is 2 Hq D C for the scores and 2 Hq
Dv C for the weighted sum, in every layer (MLA: `mla.py`). Normalization, activations and the softmax are negligible and
not counted.
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

Routing = Literal["even", "same"]  # of tokens to experts: uniformly random, or all tokens the same


def attended_keys(start: int, num_tokens: int, window: int | None) -> int:
    """Return the sum of the keys that the queries at [start, start + num_tokens) see: position p sees min(p + 1,
    window).
    """
    end = start + num_tokens
    if window is None or end <= window:
        return num_tokens * start + num_tokens * (num_tokens + 1) // 2
    growing = max(0, window - start)  # queries before the window is full
    return growing * start + growing * (growing + 1) // 2 + (num_tokens - growing) * window


def read_keys(start: int, num_tokens: int, window: int | None) -> int:
    """Return the distinct keys that those queries see, each read from the cache once."""
    return start + num_tokens if window is None else min(start + num_tokens, window + num_tokens - 1)


def embedding_params(facts: ModelShape) -> int:
    """Return the parameters of the input embedding and the output projection: one matrix if tied, else two."""
    return facts.vocab_size * facts.hidden_size * (1 if facts.tie_word_embeddings else 2)


def layer_params(facts: ModelShape) -> int:
    """Return the parameters applied to every token: all active ones but the embedding and the output projection."""
    active = facts.num_params if facts.num_active_params is None else facts.num_active_params
    return max(0, active - embedding_params(facts))


def expert_params(facts: ModelShape) -> float:
    """Return the parameters of one expert in all layers; 0: none or unknown. The inactive parameters of a token are
    those of the experts that it did not choose.
    """
    unchosen = facts.num_experts - facts.num_experts_per_tok
    if facts.num_active_params is None or facts.num_experts_per_tok < 1 or unchosen < 1:
        return 0.0
    return (facts.num_params - facts.num_active_params) / unchosen


def experts_read(facts: ModelShape, num_tokens: int) -> float:
    """Return the mean number of experts per layer that a step of T tokens reads: E · (1 − (1 − k / E)^T).

    Each token chooses k of E uniformly and independently, so it misses an expert with probability 1 − k / E; the result
    follows by linearity of expectation. Real routers are less even and read fewer.
    """
    share = facts.num_experts_per_tok / facts.num_experts
    return facts.num_experts * -math.expm1(num_tokens * math.log1p(-share))


def layer_params_read(facts: ModelShape, num_tokens: int, routing: Routing = "even") -> float:
    """Return the layer parameters that a step reads: shared ones once, and the chosen ones of a mixture of experts.

    `same`: all tokens choose the same experts, the minimum. `even`: as `experts_read`; the minimum if the number of
    experts is unknown.
    """
    least = layer_params(facts)
    one = expert_params(facts)
    if not one or routing == "same" or num_tokens < 1:
        return least
    return least + one * (experts_read(facts, num_tokens) - facts.num_experts_per_tok)


def layer_flops(facts: ModelShape, layer: int, num_keys: int) -> tuple[int, int]:
    """Return the operations of one token in one layer: of its matrices (average layer), and of attention over
    `num_keys` keys in all heads. As for decode, by the formulas of `StepWork`.
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
    span_flops: int  # per query and key in one layer, if a sequence computes several tokens
    alone_flops: int  # the same if it computes one
    numbers: int  # cached per token in one layer


class StepWork:
    """Work of the steps of one model.

    flops       2 * layer_params * T  +  2 * V * hidden * sampled rows  +  2 * Hq * (D + Dv) * keys, all layers; under
                MLA as `mla.py` says, and a sequence's only token of a step counts as decode
    weights     every layer parameter and the output projection once, one embedding row a token; of experts those that
                are chosen (`layer_params_read`)
    KV written  T tokens; KV read: the distinct keys each sequence sees, once a layer, of whose bytes a layer has the
                share that it has of a token's numbers
    """

    def __init__(
        self,
        facts: ModelShape,
        weight_element_bytes: float | None = None,
        kv_bytes_per_token: int | None = None,
        routing: Routing = "even",
        expert_element_bytes: float | None = None,
    ) -> None:
        """Args: bytes per weight and per token's K and V in all layers, None = the model's; per weight of an expert,
        None = as all.
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
        self._expansion_flops = 0  # per cached token of an earlier step
        if facts.latent_dim:
            spans, alone = int(expanded_flops(facts).value), int(absorbed_flops(facts).value)
            self._kinds = [_Kind(kind.window, kind.layers, spans, alone, facts.latent_dim) for kind in self._kinds]
            self._expansion_flops = expansion_flops(facts)
        self._numbers = sum(kind.layers * kind.numbers for kind in self._kinds)

    def of(self, batch: Sequence[BatchEntry], left_out: int = 0) -> Work:
        """Return the work of one step. `left_out`: products of a weight and a token that it did not compute."""
        facts = self._facts
        spans = [(entry.start, len(entry.token_ids)) for entry in batch if len(entry.token_ids) > 1]
        # one token attends to exactly the keys read
        alone = [entry.context_len for entry in batch if len(entry.token_ids) == 1]
        num_tokens = len(alone) + sum([count for _, count in spans])
        # a decode of several tokens verifies drafts, which needs logits for each
        sampled = sum([len(entry.token_ids) if entry.phase == "decode" else 1 for entry in batch if entry.samples])
        flops = 2 * (self._layer_params * num_tokens - left_out)
        flops += 2 * self._projection * sampled
        read = expanded = 0
        for window, layers, span_flops, alone_flops, numbers in self._kinds:
            seen = sum(alone if window is None else [min(length, window) for length in alone])
            by_spans = sum([read_keys(start, count, window) for start, count in spans])
            flops += layers * alone_flops * seen
            flops += layers * span_flops * sum([attended_keys(start, count, window) for start, count in spans])
            read += layers * numbers * (seen + by_spans)
            expanded += layers * by_spans
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
