"""Attention of a whole step in one call on CUDA: torch's `varlen_attn`, which reads keys and values by block table.

    query        [T, Hq, D]                       all slices of the step, prefills and decodes
    key, value   [num_blocks, block_size, Hkv, D] a layer's pool as it lies in memory
    block_table  [S, B], seqused_k [S]            the blocks of each sequence, and its number of keys
    window_size  (window - 1, 0)                  to the left of each query and to its right; -1 = all

Only the implementations that torch calls FA3 and FA4 read block tables. They are separate packages (flash-attn-3,
flash-attn-4); without them `varlen_attn` refuses block tables. `reads_block_tables` tests once whether this build reads
them on this device for this model's shapes.

The kernel computes in half precision and has no softcap, sinks or policies; layers with these use another backend. It
never forms the weights: if needed, they come from that other backend and differ only by rounding.
"""

from __future__ import annotations

import logging
from functools import cache

import torch
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from engine.cache.kv_plane import PlainPlane
from engine.cache.kv_store import KVStore, LayerShape
from engine.model.attention_backend import AttentionBackend, AttentionCall, AttentionOutput
from engine.model.attention_gather import GatherAttention
from engine.model.batch import SequenceSlice, SlotTable, StepBatch

log = logging.getLogger(__name__)

HALVES = (torch.float16, torch.bfloat16)
TOLERANCE = 0.05  # maximum difference of outputs near 1 after two roundings to bfloat16; a wrong key causes about 0.3
BLACKWELL = 10  # minimum compute capability with which FA4 reads block tables
_UNFIT = (RuntimeError, TypeError, ValueError)  # raised by builds without block tables or these arguments


class VarlenAttention(AttentionBackend):
    """Backend on torch's varlen kernel; `fallback` computes calls that the kernel does not support."""

    def __init__(self, fallback: AttentionBackend) -> None:
        self._fallback = fallback

    def forward(
        self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch, needs_weights: bool
    ) -> AttentionOutput:
        shape, keys = store.shapes[call.layer], store.keys[call.layer]
        plain = isinstance(keys, PlainPlane) and keys.pools[0].dtype == q.dtype and q.dtype in HALVES
        simple = call.softcap is None and call.sinks is None and batch.policy is None
        if not (
            plain
            and simple
            and shape.head_dim == shape.v_head_dim
            and reads_block_tables(q.device, q.dtype, q.shape[1], shape, store.block_size)
        ):
            return self._fallback.forward(call, q, store, batch, needs_weights)
        out = attend(call, q, store, batch)
        if not needs_weights:
            return AttentionOutput(out, None, [])
        return self._fallback.forward(call, q, store, batch, True)._replace(out=out)


def attend(call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch) -> Tensor:
    """Attend in one call: q [T, Hq, D], packed as in `batch` -> [T, Hq, D]."""
    tables = batch.step_tables(batch.reach(call.layer, call.sliding_window))
    out = varlen_attn(
        q.contiguous(),
        store.keys[call.layer].pools[0],
        store.values[call.layer].pools[0],
        tables.query_start_loc,
        None,
        tables.max_queries,
        tables.longest,
        scale=call.scaling,
        window_size=(-1 if call.sliding_window is None else call.sliding_window - 1, 0),
        enable_gqa=True,
        seqused_k=tables.lengths,
        block_table=tables.block_tables,
    )
    assert isinstance(out, Tensor), "no other output was requested"
    return out


@cache
def activate(device: torch.device) -> str:
    """Activate an implementation that reads block tables; return its name, or "" if none is installed.

    The activation also affects torch's other attention functions in this process.
    """
    try:
        from torch.nn.attention import activate_flash_attention_impl
    except ImportError:  # an older torch
        return ""
    name = "FA4" if torch.cuda.get_device_capability(device)[0] >= BLACKWELL else "FA3"
    try:
        activate_flash_attention_impl(name)
    except (ImportError, OSError, *_UNFIT) as error:
        log.info("torch's attention by block table is not available: %s", error)
        return ""
    return name


@cache
def reads_block_tables(
    device: torch.device, dtype: torch.dtype, num_heads: int, shape: LayerShape, block_size: int
) -> bool:
    """Return whether `varlen_attn` reads block tables correctly, tested on a prefill chunk and a decode over scattered
    blocks, with and without a window."""
    generator = torch.Generator().manual_seed(0)
    pieces = [(5, 6), (10, 1)]  # first position and number of tokens
    blocks = -(-11 // block_size)
    tables = [list(range(2 * blocks - 1 - row, -1, -2)) for row in range(2)]  # descending and interleaved
    store = KVStore([shape], 2 * blocks, block_size, dtype, device)
    for pool in store.pools([0]):
        pool.copy_(torch.randn(pool.shape, generator=generator))
    slices = [SequenceSlice(row, [0] * count, start, [tables[row]], True) for row, (start, count) in enumerate(pieces)]
    batch = StepBatch(slices, SlotTable(block_size, 16), device)
    q = torch.randn((batch.num_tokens, num_heads, shape.head_dim), generator=generator).to(device, dtype)
    for window in (None, 4):
        call = AttentionCall(0, shape.head_dim**-0.5, window, None, None)
        expected = GatherAttention().forward(call, q, store, batch, False).out
        try:
            found = attend(call, q, store, batch)
        except _UNFIT as error:
            log.info("torch's attention by block table does not run here: %s", str(error)[:200])
            return False
        if not (found.float() - expected.float()).abs().max() < TOLERANCE:  # also true for NaN
            log.warning("torch's attention by block table is wrong here, so it is not used")
            return False
    return True
