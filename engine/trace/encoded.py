"""Arrays of a decode step as the log's bytes, laid out before the numbers are there.

    layer {q, k, v, rows [{seq_id, ..., weights}]}   ->   bytes with gaps, and where each gap is

What computes the numbers rounds them into the gaps: they are copied once, and no array is an object of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np

from engine.trace import codec
from engine.trace.records import AttentionRows, LayerCapture

_value = msgspec.msgpack.encode


class DecodedRow(NamedTuple):
    """The weights [H, 1, num_keys] of a sequence's one query."""

    seq_id: int
    query_start: int  # position of the query
    key_start: int  # of its first key
    num_keys: int


class Layout:
    """The bytes of one layer without its number, with gaps, and where they begin: q, k, v, each row's weights, and what
    attention gave, where that is kept.
    """

    def __init__(
        self,
        dtype: str,
        q: tuple[int, ...],
        k: tuple[int, ...],
        v: tuple[int, ...],
        rows: Sequence[DecodedRow],
        out: tuple[int, ...] | None = None,
    ) -> None:
        """Shapes of q [T, Hq, D], k [T, Hkv, D], v [T, Hkv, Dv], out [T, Hq, Dv] (None: not kept), and their rows;
        `dtype` float16 or float32.
        """
        heads: list[bytes] = []  # what stands before each array
        sizes = [_num_bytes(dtype, shape) for shape in (q, k, v)]
        for name, shape, size in zip(("q", "k", "v"), (q, k, v), sizes, strict=True):
            heads.append(_value(name) + _array_head(dtype, shape, size))
        before = _value("rows") + _list_head(len(rows))
        num_heads, bytes_of_key = q[1], _num_bytes(dtype, (q[1],))
        weights = _weights_of(num_heads)
        for seq_id, query_start, key_start, num_keys in rows:
            size = num_keys * bytes_of_key
            head = _array_head(dtype, (num_heads, 1, num_keys), size)
            numbers = (_SEQ_ID, _value(seq_id), _QUERY_START, _value(query_start), _KEY_START, _value(key_start))
            heads.append(b"".join((before, *numbers, weights, head)))
            sizes.append(size)
            before = b""
        if out is not None:
            size = _num_bytes(dtype, out)
            heads.append(before + _value("out") + _array_head(dtype, out, size))
            sizes.append(size)
            before = b""
        self.begin = _LAYER if out is None else _LAYER_WITH_OUT
        self.num_bytes = sum(sizes)  # of the arrays alone
        self.places: list[int] = []
        self.body = bytearray(self.num_bytes + sum(map(len, heads)) + len(before))
        end = 0
        for head, size in zip(heads, sizes, strict=True):
            begin, end = end, end + len(head)
            self.body[begin:end] = head
            self.places.append(end)
            end += size
        self.body[end:] = before


class EncodedLayer(codec.Encoded):
    """A `LayerCapture` as the log's bytes; reads as one."""

    def __init__(self, layer: int, layout: Layout) -> None:
        self.layer = layer
        encoded = bytearray(layout.begin + _value(layer))
        self.begin = len(encoded)  # the layout's places count from here
        encoded += layout.body
        super().__init__(encoded)

    def decoded(self) -> LayerCapture:
        """Its arrays, copies."""
        return codec.decode(self.encoded, LayerCapture)

    def __getattr__(self, name: str) -> Any:
        if name not in LayerCapture.__struct_fields__:
            raise AttributeError(name)
        return getattr(self.decoded(), name)


def _num_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


@lru_cache(maxsize=4096)
def _array_head(dtype: str, shape: tuple[int, ...], num_bytes: int) -> bytes:
    """What stands before an array's numbers."""
    whole = codec.encode(np.zeros(shape, dtype))
    return whole[: len(whole) - num_bytes]


@lru_cache(maxsize=64)
def _weights_of(num_heads: int) -> bytes:
    """What stands between a row's numbers and its weights."""
    return _value("heads") + _value(list(range(num_heads))) + _value("weights")


@lru_cache(maxsize=1024)
def _list_head(length: int) -> bytes:
    return _value([None] * length)[:-length] if length else _value([])


_NAMES = ("layer", "q", "k", "v", "rows")  # and `out`, left out where it is not kept
_LAYER, _LAYER_WITH_OUT = (_value(dict.fromkeys(n))[:1] + _value("layer") for n in (_NAMES, (*_NAMES, "out")))
_SEQ_ID, _QUERY_START, _KEY_START = (_value(name) for name in AttentionRows.__struct_fields__[:3])
_SEQ_ID = _value(dict.fromkeys(AttentionRows.__struct_fields__))[:1] + _SEQ_ID  # a row begins with it
