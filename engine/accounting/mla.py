"""Operations of multi-head latent attention (MLA; DeepSeek-AI, "DeepSeek-V2", arXiv 2405.04434, 2.1).

Of a token a layer keeps one vector of d numbers for all heads: d − r of them hold keys and values compressed, r a key
with its position, which all heads share. A head's keys have D numbers, of which r are that shared key, its values Dv.

    decode     W_UK is absorbed into the query and W_UV into what comes out, so each head compares itself with the kept
               vector and sums its compressed part: 2 · Hq · (d + (d − r)) operations a query and key, d numbers read a
               key. Applying the two matrices to a query costs what applying them to one token does, so a token's
               operations by parameters stay 2 a parameter.
    prefill    each head's keys and values are made of the kept vector, once a token, and then it is attention of heads:
               2 · Hq · (D + Dv) a query and key. What earlier steps kept is expanded again for each chunk.

vLLM does both so, by the phase.
"""

from __future__ import annotations

from engine.accounting.derived import Derived, Factor, derive
from engine.accounting.shape import ModelShape


def absorbed_flops(facts: ModelShape) -> Derived:
    """Of one query and one key in a layer, all heads, of decode."""
    return derive(
        "key_flops_decode", "FLOP", "2 · Hq · (d + (d − r))", Factor("Hq", facts.num_heads, "query_heads"),
        Factor("d", facts.latent_dim, "latent_dim"), Factor("r", facts.rope_dim, "rope_dim"),
    )  # fmt: skip


def expanded_flops(facts: ModelShape) -> Derived:
    """Of one query and one key in a layer, all heads, of prefill."""
    return derive(
        "key_flops_prefill", "FLOP", "2 · Hq · (D + D_v)", Factor("Hq", facts.num_heads, "query_heads"),
        Factor("D", facts.head_dim, "head_dim"), Factor("D_v", facts.v_head_dim, "v_head_dim"),
    )  # fmt: skip


def expansion_flops(facts: ModelShape) -> int:
    """Of making all heads' keys and values of one kept vector in a layer: 2 · (d − r) · Hq · (D − r + Dv)."""
    compressed = facts.latent_dim - facts.rope_dim
    return 2 * compressed * facts.num_heads * (facts.head_dim - facts.rope_dim + facts.v_head_dim)
