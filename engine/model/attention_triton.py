"""Decode attention for CUDA as a paged kernel: each program reads the blocks of one sequence in place.

    grid    (sequence, KV head, split)      a split covers a share of the sequence's keys (flash decoding)
    tile    KEYS keys: position -> block_table[position // block_size] -> slot -> K, V
    scores  softcap(q k^T * scaling); the online softmax keeps the running maximum m, the sum l and the output
    join    several splits of a sequence are weighted by exp(m - max m)

The query heads that share a KV head are the rows of one small matrix product, so K and V are read once for all of them.
`GatherAttention` computes prefills, and every step under a policy: the kernel supports one range of keys per sequence,
not sinks and a window. The module needs triton. Without a GPU the kernels run in Triton's interpreter
(TRITON_INTERPRET=1), as in the tests.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.cache.kv_plane import PlainPlane
from engine.cache.kv_store import KVStore, LayerShape
from engine.model.attention_backend import AttentionBackend, AttentionCall, AttentionOutput, DecodeWeights
from engine.model.attention_gather import GatherAttention
from engine.model.batch import SequenceSlice, SlotTable, StepBatch
from engine.model.compiler_cache import use_own_cache

log = logging.getLogger(__name__)
use_own_cache()

KEYS, FLOAT_KEYS = 64, 32  # keys per tile in half precision and in float32, where 64 exceed the registers
ROWS = 16  # minimum rows of a matrix product; the query heads of a group are padded to it
STAGES = 2  # pipeline stages: tiles being loaded from memory
KEYS_A_SPLIT = 64  # minimum number of keys of a split
MAX_SPLITS = 64
PROGRAMS = 528  # number of programs that fills the device: four per multiprocessor of an H100
# dtypes that matrix units multiply; Triton's interpreter has no product of bfloat16
HALVES = (torch.float16,) if triton.knobs.runtime.interpret else (torch.float16, torch.bfloat16)


@triton.jit
def _attend(  # type: ignore[no-untyped-def]
    q_ptr, k_ptr, v_ptr, table_ptr, length_ptr, start_ptr, sink_ptr, part_ptr, max_ptr, sum_ptr, score_ptr,
    out_ptr, lse_ptr, scaling, softcap, table_width, score_width, num_splits,
    HKV: tl.constexpr, G: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    DP: tl.constexpr, DVP: tl.constexpr, GP: tl.constexpr, TILE: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr, HAS_SINKS: tl.constexpr, STORE_SCORES: tl.constexpr, HALF: tl.constexpr,
    IS_SINGLE_SPLIT: tl.constexpr,
):  # fmt: skip
    """Compute a split of a sequence and KV head: its unnormalised output [G, DV], maximum and sum [G].

    `IS_SINGLE_SPLIT`: there is a single split, and the final output of `_join` is written directly.
    `HALF`: q, K and V have the same half dtype, which matrix units multiply directly, with sums in float32; the
    weights are rounded to it before the product with V. Otherwise everything is float32.
    """
    seq, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows, dims, vdims = tl.arange(0, GP), tl.arange(0, DP), tl.arange(0, DVP)
    heads = head * G + rows
    q = tl.load(
        q_ptr + (seq * HKV * G + heads)[:, None] * D + dims[None, :],
        mask=(rows < G)[:, None] & (dims < D)[None, :],
        other=0.0,
    )
    if not HALF:
        q = q.to(tl.float32)
    first, end = tl.load(start_ptr + seq), tl.load(length_ptr + seq)
    share = tl.cdiv(tl.cdiv(end - first, TILE), num_splits) * TILE
    begin = first + split * share
    stop = tl.minimum(begin + share, end)
    top = tl.full([GP], float("-inf"), tl.float32)
    total = tl.zeros([GP], tl.float32)
    out = tl.zeros([GP, DVP], tl.float32)
    if HAS_SINKS:  # noqa: SIM102  a compile-time condition, unlike the next
        if split == 0:  # the sink counts once
            top = tl.load(sink_ptr + heads, mask=rows < G, other=0.0).to(tl.float32)
            total = tl.full([GP], 1.0, tl.float32)
    for tile in range(begin, stop, TILE):
        positions = tile + tl.arange(0, TILE)
        seen = positions < stop
        blocks = tl.load(table_ptr + seq * table_width + positions // BLOCK_SIZE, mask=seen, other=0).to(tl.int64)
        slots = (blocks * BLOCK_SIZE + positions % BLOCK_SIZE) * HKV + head
        k = tl.load(k_ptr + slots[:, None] * D + dims[None, :], mask=seen[:, None] & (dims < D)[None, :], other=0.0)
        if not HALF:
            k = k.to(tl.float32)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scaling  # [GP, TILE]
        if HAS_SOFTCAP:
            scores = softcap * (2 * tl.sigmoid(2 * scores / softcap) - 1)  # softcap * tanh(scores / softcap)
        scores = tl.where(seen[None, :], scores, float("-inf"))
        if STORE_SCORES:
            tl.store(
                score_ptr + (seq * HKV * G + heads)[:, None] * score_width + (positions - first)[None, :],
                scores,
                mask=(rows < G)[:, None] & seen[None, :],
            )
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp(scores - higher[:, None])
        shrink = tl.exp(top - higher)
        v = tl.load(v_ptr + slots[:, None] * DV + vdims[None, :], mask=seen[:, None] & (vdims < DV)[None, :], other=0.0)
        total = total * shrink + tl.sum(weights, 1)
        if HALF:
            weights = weights.to(v.dtype)
        else:
            v = v.to(tl.float32)
        out = out * shrink[:, None] + tl.dot(weights, v, input_precision="ieee")
        top = higher
    at = (seq * HKV * G + heads) * num_splits + split
    places, known = at[:, None] * DV + vdims[None, :], (rows < G)[:, None] & (vdims < DV)[None, :]
    if IS_SINGLE_SPLIT:
        tl.store(out_ptr + places, (out / total[:, None]).to(out_ptr.dtype.element_ty), mask=known)
        tl.store(lse_ptr + at, top + tl.log(total), mask=rows < G)
    else:
        tl.store(part_ptr + places, out, mask=known)
        tl.store(max_ptr + at, top, mask=rows < G)
        tl.store(sum_ptr + at, total, mask=rows < G)


@triton.jit
def _join(  # type: ignore[no-untyped-def]
    part_ptr, max_ptr, sum_ptr, out_ptr, lse_ptr, num_splits, DV: tl.constexpr, DVP: tl.constexpr, SP: tl.constexpr
):  # fmt: skip
    """Merge the splits of a sequence and query head into its output [DV] and the log of its softmax sum."""
    row = tl.program_id(0)
    splits, vdims = tl.arange(0, SP), tl.arange(0, DVP)
    known = splits < num_splits
    tops = tl.load(max_ptr + row * num_splits + splits, mask=known, other=float("-inf"))
    totals = tl.load(sum_ptr + row * num_splits + splits, mask=known, other=0.0)
    top = tl.max(tops, 0)
    factors = tl.exp(tops - top)
    total = tl.sum(totals * factors, 0)
    parts = tl.load(
        part_ptr + (row * num_splits + splits)[:, None] * DV + vdims[None, :],
        mask=known[:, None] & (vdims < DV)[None, :],
        other=0.0,
    )
    out = tl.sum(parts * factors[:, None], 0) / total
    tl.store(out_ptr + row * DV + vdims, out.to(out_ptr.dtype.element_ty), mask=vdims < DV)
    tl.store(lse_ptr + row, top + tl.log(total))


class TritonAttention(AttentionBackend):
    """Backend that decodes in one kernel and uses `GatherAttention` for everything else."""

    reads_tables_only = True

    def __init__(self) -> None:
        self._gather = GatherAttention()

    def forward(
        self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch, needs_weights: bool
    ) -> AttentionOutput:
        plain = isinstance(store.keys[call.layer], PlainPlane)
        if not plain or not batch.num_decodes or batch.policy is not None:
            return self._gather.forward(call, q, store, batch, needs_weights)
        if not batch.prefills:
            out, decode = _decode(call, q, store, batch, needs_weights)
            return AttentionOutput(out, decode, [])
        assert batch.decode_tokens is not None
        out = q.new_empty((q.shape[0], q.shape[1], store.shapes[call.layer].v_head_dim))
        prefills = self._gather.prefill(call, q, out, store, batch, needs_weights)
        decoded, decode = _decode(call, q[batch.decode_tokens], store, batch, needs_weights)
        out[batch.decode_tokens] = decoded
        return AttentionOutput(out, decode, prefills)


def _decode(
    call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch, needs_weights: bool
) -> tuple[Tensor, DecodeWeights | None]:
    """Attend: q [n, Hq, D] -> out [n, Hq, Dv], and the weights [n, Hq, L] if needed."""
    n, num_heads, head_dim = q.shape
    num_kv_heads, _, v_head_dim = store.shapes[call.layer]
    tables = batch.decode_tables(batch.reach(call.layer, call.sliding_window))
    longest = tables.longest
    num_splits = max(1, min(MAX_SPLITS, longest // KEYS_A_SPLIT, PROGRAMS // (n * num_kv_heads)))
    keys, values = store.keys[call.layer].pools[0], store.values[call.layer].pools[0]
    floats: dict[str, Any] = {"dtype": torch.float32, "device": q.device}
    out, lse = q.new_empty((n, num_heads, v_head_dim)), torch.empty((n, num_heads), **floats)
    splits = (n, num_heads, num_splits) if num_splits > 1 else (1, 1, 1)
    parts, tops, totals = torch.empty((*splits, v_head_dim), **floats), *torch.empty((2, *splits), **floats)
    scores = torch.full((n, num_heads, longest), float("-inf"), **floats) if needs_weights else parts
    sinks = call.sinks if call.sinks is not None else parts
    dims = {"D": head_dim, "DV": v_head_dim, "DP": max(16, triton.next_power_of_2(head_dim))}
    dvp = max(16, triton.next_power_of_2(v_head_dim))
    group = num_heads // num_kv_heads
    half = q.dtype == keys.dtype == values.dtype and q.dtype in HALVES
    _attend[(n, num_kv_heads, num_splits)](
        q.contiguous(), keys, values, tables.block_tables, tables.lengths, tables.starts, sinks, parts, tops, totals,
        scores, out, lse, call.scaling, call.softcap or 1.0, tables.block_tables.shape[1], longest, num_splits,
        HKV=num_kv_heads, G=group, BLOCK_SIZE=store.block_size, DVP=dvp, GP=max(ROWS, triton.next_power_of_2(group)),
        TILE=KEYS if half else FLOAT_KEYS, HALF=half, IS_SINGLE_SPLIT=num_splits == 1,
        HAS_SOFTCAP=call.softcap is not None, HAS_SINKS=call.sinks is not None, STORE_SCORES=needs_weights,
        num_stages=STAGES, **dims,
    )  # fmt: skip
    if num_splits > 1:
        _join[(n * num_heads,)](
            parts, tops, totals, out, lse, num_splits, DV=v_head_dim, DVP=dvp, SP=triton.next_power_of_2(num_splits)
        )
    if not needs_weights:
        return out, None
    return out, DecodeWeights(tables.key_starts, torch.exp(scores - lse[..., None]))


@cache
def runs(device: torch.device) -> bool:
    """Return whether the kernel runs here, tested on one token: Triton needs a C compiler, Python's headers, and a GPU
    that it supports.
    """
    call = AttentionCall(0, 1.0, None, None, None)
    try:
        store = KVStore([LayerShape(1, 16, 16)], 1, 16, torch.float32, device)
        batch = StepBatch([SequenceSlice(0, [0], 0, [[0]], True)], SlotTable(16, 16), device)
        with torch.inference_mode():
            _decode(call, torch.ones((1, 1, 16), device=device), store, batch, False)
    except Exception as error:  # a compiler may raise anything
        reason = " ".join(str(error).split())[:200]
        log.warning("Triton does not run here, so decodes use the slower attention by gathered keys: %s", reason)
        return False
    return True
