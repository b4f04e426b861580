"""Operations of multi-head latent attention (MLA; DeepSeek-AI, "DeepSeek-V2", arXiv 2405.04434, 2.1).

A layer caches one vector of d numbers per token for all heads: d − r compressed numbers of keys and values, and r
numbers of a rotated key that all heads share. A key of a head has D numbers, including the r shared ones; a value has
Dv.

    decode     W_UK is absorbed into the query and W_UV into the output, so each head attends to the cached vector
               and sums its compressed part: 2 · Hq · (d + (d − r)) operations per query and key, and d numbers read
               per key. Applying the two matrices to a query costs as much as applying them to one token, so there are
               still 2 operations per parameter and token.
    prefill    each head's keys and values are expanded from the cached vector, once per token, and then attention is
               computed per head: 2 · Hq · (D + Dv) operations per query and key. Cached tokens of earlier chunks are
               expanded again for each chunk.

vLLM uses the same two methods.
"""

from __future__ import annotations

from engine.accounting.derived import Derived, Factor, derive
from engine.accounting.shape import ModelShape


def absorbed_flops(facts: ModelShape) -> Derived:
    """Return the decode operations of one query and one key in a layer, over all heads."""
    return derive(
        "key_flops_decode", "FLOP", "2 · Hq · (d + (d − r))", Factor("Hq", facts.num_heads, "query_heads"),
        Factor("d", facts.latent_dim, "latent_dim"), Factor("r", facts.rope_dim, "rope_dim"),
    )  # fmt: skip


def expanded_flops(facts: ModelShape) -> Derived:
    """Return the prefill operations of one query and one key in a layer, over all heads."""
    return derive(
        "key_flops_prefill", "FLOP", "2 · Hq · (D + D_v)", Factor("Hq", facts.num_heads, "query_heads"),
        Factor("D", facts.head_dim, "head_dim"), Factor("D_v", facts.v_head_dim, "v_head_dim"),
    )  # fmt: skip


def expansion_flops(facts: ModelShape) -> int:
    """Return the operations to expand one cached vector in a layer, 2 · (d − r) · Hq · (D − r + Dv)."""
    compressed = facts.latent_dim - facts.rope_dim
    return 2 * compressed * facts.num_heads * (facts.head_dim - facts.rope_dim + facts.v_head_dim)
