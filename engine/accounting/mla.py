"""Operations of multi-head latent attention (MLA; DeepSeek-AI, "DeepSeek-V2", arXiv 2405.04434, 2.1).

A layer caches one vector of d numbers per token for all heads: d − r are the compressed keys and values, r is a rotated
key shared by all heads. A head's keys have D numbers, including the r shared ones, its values Dv.

    decode     W_UK is absorbed into the query and W_UV into the output, so each head attends to the cached vector
               and sums its compressed part: 2 · Hq · (d + (d − r)) operations a query and key, d numbers read a
               key. Applying the two matrices to a query costs as much as applying them to one token, so a token's
               operations by parameters stay 2 a parameter.
    prefill    each head's keys and values are expanded from the cached vector, once a token, followed by attention
               of heads: 2 · Hq · (D + Dv) a query and key. Cached earlier tokens are expanded again for each chunk.

vLLM does the same, by phase.
"""

from __future__ import annotations

from engine.accounting.derived import Derived, Factor, derive
from engine.accounting.shape import ModelShape


def absorbed_flops(facts: ModelShape) -> Derived:
    """Return the operations of one query and one key in a layer, all heads, for decode."""
    return derive(
        "key_flops_decode", "FLOP", "2 · Hq · (d + (d − r))", Factor("Hq", facts.num_heads, "query_heads"),
        Factor("d", facts.latent_dim, "latent_dim"), Factor("r", facts.rope_dim, "rope_dim"),
    )  # fmt: skip


def expanded_flops(facts: ModelShape) -> Derived:
    """Return the operations of one query and one key in a layer, all heads, for prefill."""
    return derive(
        "key_flops_prefill", "FLOP", "2 · Hq · (D + D_v)", Factor("Hq", facts.num_heads, "query_heads"),
        Factor("D", facts.head_dim, "head_dim"), Factor("D_v", facts.v_head_dim, "v_head_dim"),
    )  # fmt: skip


def expansion_flops(facts: ModelShape) -> int:
    """Return the operations to expand one cached vector in a layer: 2 · (d − r) · Hq · (D − r + Dv)."""
    compressed = facts.latent_dim - facts.rope_dim
    return 2 * compressed * facts.num_heads * (facts.head_dim - facts.rope_dim + facts.v_head_dim)
