"""C functions for decode and prefill attention, compared with attention in float64."""

import shutil
from array import array

import pytest
import torch
from torch import Tensor

from engine.model.native import build_native

LENGTHS = [3, 40, 17]


def _expected(
    q: Tensor, keys: Tensor, values: Tensor, mask: Tensor, sinks: Tensor | None, scaling: float, softcap: float
) -> tuple[Tensor, Tensor]:
    """Return out [n, Hq, Dv] and weights [n, Hq, L] for q [n, Hq, D], keys and values [n, L, Hkv, D], mask [n, L]."""
    group = q.shape[1] // keys.shape[2]
    k, v = (x.double().transpose(1, 2).repeat_interleave(group, 1) for x in (keys, values))
    scores = torch.einsum("nhd,nhld->nhl", q.double(), k) * scaling
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores.masked_fill(mask[:, None], float("-inf"))
    if sinks is not None:
        scores = torch.cat([scores, sinks.double().view(1, -1, 1).expand(*scores.shape[:2], 1)], dim=-1)
    weights = torch.softmax(scores, dim=-1)[..., : mask.shape[1]]
    return torch.einsum("nhl,nhld->nhd", weights, v), weights


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("special", ["plain", "hidden between", "sinks", "softcap"])
@pytest.mark.parametrize(
    ("num_heads", "num_kv_heads", "width", "v_width"),
    [(8, 2, 32, 32), (4, 4, 16, 16), (5, 1, 20, 24), (6, 2, 64, 80), (18, 3, 48, 33)],
)
def test_native_decode_attention_equals_float64(
    num_heads: int, num_kv_heads: int, width: int, v_width: int, special: str, threads: int
) -> None:
    """Groups have 1, 3, 4, 5 and 6 heads. Some widths fill registers and others do not. Rows are padded to 40 keys."""
    random = torch.Generator().manual_seed(0)
    n, length = len(LENGTHS), max(LENGTHS)
    q = torch.randn((n, num_heads, width), generator=random)
    k_pool = torch.randn((200, num_kv_heads, width), generator=random)
    v_pool = torch.randn((200, num_kv_heads, v_width), generator=random)
    slots = torch.randperm(200, generator=random)[: n * length].view(n, length)
    positions, ends = torch.arange(length)[None], torch.tensor(LENGTHS)[:, None]
    mask = positions >= ends
    if special == "hidden between":
        mask |= (positions >= 2) & (positions < ends - 4)
    k_pool[slots[mask]] = v_pool[slots[mask]] = float("nan")  # masked keys are not read
    sinks = torch.randn(num_heads, generator=random) if special == "sinks" else None
    softcap = 2.0 if special == "softcap" else 0.0
    out = torch.full((n, num_heads, v_width), 9.0)
    weights = torch.full((n, num_heads, length), 9.0)
    build_native().decode_attention(
        q.data_ptr(), q.stride(0), q.stride(1), None, k_pool.data_ptr(), v_pool.data_ptr(), slots.data_ptr(),
        slots.stride(0), mask.data_ptr(), None if sinks is None else sinks.data_ptr(), out.data_ptr(),
        weights.data_ptr(), n, num_heads, num_kv_heads, width, v_width, length, 0.3, softcap, threads,
    )  # fmt: skip
    visible_keys = k_pool[slots].masked_fill(mask[..., None, None], 0)
    visible_values = v_pool[slots].masked_fill(mask[..., None, None], 0)
    expected, expected_weights = _expected(q, visible_keys, visible_values, mask, sinks, 0.3, softcap)
    torch.testing.assert_close(weights.double(), expected_weights, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(out.double(), expected, rtol=2e-6, atol=4e-6)
    assert (weights[mask[:, None].expand_as(weights)] == 0).all()


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("special", ["plain", "window", "window and sinks kept", "sinks", "softcap"])
@pytest.mark.parametrize(("num_tokens", "first"), [(2, 0), (8, 0), (77, 0), (5, 60), (32, 33), (1, 40), (150, 50)])
@pytest.mark.parametrize(
    ("num_heads", "num_kv_heads", "width", "v_width"), [(8, 2, 32, 32), (4, 4, 16, 16), (5, 1, 20, 24), (6, 2, 64, 83)]
)
def test_native_prefill_attention_equals_float64(
    num_heads: int, num_kv_heads: int, width: int, v_width: int, num_tokens: int, first: int, special: str
) -> None:
    """Tiles of eight queries and panels of sixteen keys are full or partial, with and without earlier keys. The longest
    sequence is shared by threads. Another sequence of two tokens does not change the result.
    """
    threads = 1 + num_tokens % 2
    random = torch.Generator().manual_seed(num_tokens)
    length = first + num_tokens
    qkv = torch.randn((num_tokens + 2, num_heads + 3, width), generator=random)
    q = qkv[:, :num_heads]  # rows have a larger stride than width, as in a merged projection
    k_pool = torch.randn((300, num_kv_heads, width), generator=random)
    v_pool = torch.randn((300, num_kv_heads, v_width), generator=random)
    slots, others = torch.randperm(300, generator=random)[: length + 2].tensor_split([length])
    window, kept = {"window": (11, 0), "window and sinks kept": (6, 3)}.get(special, (0, 0))
    queries, keys = torch.arange(first, length)[:, None], torch.arange(length)[None]
    mask = keys > queries
    if window:
        mask |= (keys <= queries - window) & (keys >= kept)
    sinks = torch.randn(num_heads, generator=random) if special == "sinks" else None
    softcap = 2.0 if special == "softcap" else 0.0
    main = 0, num_tokens, first, length, slots.data_ptr(), 0, 0
    other = num_tokens, num_tokens + 2, 0, 2, others.data_ptr(), num_tokens * length, 1
    outs, weights = [], torch.full((num_heads * (num_tokens * length + 4),), 9.0)
    for spans, output_weights in (((main, other), weights), ((main, other), None), ((main,), None), ((other,), None)):
        out, numbers = torch.full((num_tokens + 2, num_heads, v_width), 9.0), array("q", sum(spans, ()))
        failed = build_native().prefill_spans(
            q.data_ptr(), q.stride(0), q.stride(1), k_pool.data_ptr(), v_pool.data_ptr(),
            numbers.buffer_info()[0], len(spans), None if sinks is None else sinks.data_ptr(),
            out.data_ptr(), None if output_weights is None else output_weights.data_ptr(), None,
            window, kept, num_heads, num_kv_heads, width, v_width, 0.3, softcap, threads,
        )  # fmt: skip
        assert not failed
        outs.append(out)
    assert torch.equal(outs[0], outs[1])
    assert torch.equal(outs[0], torch.cat([outs[2][:num_tokens], outs[3][num_tokens:]]))
    weights, other_weights = weights.tensor_split([num_heads * num_tokens * length])
    weights = weights.view(num_heads, num_tokens, length)
    assert (other_weights.view(num_heads, 2, 2)[:, 0, 1] == 0).all() and (other_weights <= 1).all()
    batch = k_pool[slots].expand(num_tokens, -1, -1, -1), v_pool[slots].expand(num_tokens, -1, -1, -1)
    expected, expected_weights = _expected(q[:num_tokens], *batch, mask, sinks, 0.3, softcap)
    torch.testing.assert_close(weights.transpose(0, 1).double(), expected_weights, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(outs[0][:num_tokens].double(), expected, rtol=2e-6, atol=4e-6)
    assert (weights.transpose(0, 1)[mask[:, None].expand(-1, num_heads, -1)] == 0).all()
