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
    """The bytes of one layer without its number, with gaps, and where they begin: q, k, v, and each row's weights."""

    def __init__(
        self, dtype: str, q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...], rows: Sequence[DecodedRow]
    ) -> None:
        """Shapes of q [T, Hq, D], k [T, Hkv, D], v [T, Hkv, Dv], and their rows; `dtype` float16 or float32."""
        parts: list[bytes] = []
        places: list[int] = []
        end = total = 0

        def add(head: bytes, num_bytes: int) -> None:
            nonlocal end, total
            parts.append(head)
            parts.append(bytes(num_bytes))
            places.append(end + len(head))
            end += len(head) + num_bytes
            total += num_bytes

        for name, shape in (("q", q), ("k", k), ("v", v)):
            add(_value(name) + _array_head(dtype, shape), _num_bytes(dtype, shape))
        before = _value("rows") + _list_head(len(rows))
        heads = _value("heads") + _value(list(range(q[1]))) + _value("weights")
        for row in rows:
            shape = (q[1], 1, row.num_keys)
            own = before + _ROW
            for key, number in zip(_NAMES, row[:3], strict=True):
                own += key + _value(number)
            add(own + heads + _array_head(dtype, shape), _num_bytes(dtype, shape))
            before = b""
        self.body = b"".join([*parts, before])
        self.places = places
        self.num_bytes = total  # of the arrays alone


class EncodedLayer(codec.Encoded):
    """A `LayerCapture` as the log's bytes; reads as one."""

    def __init__(self, layer: int, layout: Layout) -> None:
        self.layer = layer
        encoded = bytearray(_LAYER + _value(layer))
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
def _array_head(dtype: str, shape: tuple[int, ...]) -> bytes:
    """What stands before an array's numbers."""
    whole = codec.encode(np.zeros(shape, dtype))
    return whole[: len(whole) - _num_bytes(dtype, shape)]


@lru_cache(maxsize=1024)
def _list_head(length: int) -> bytes:
    return _value([None] * length)[:-length] if length else _value([])


_LAYER = _value(dict.fromkeys(("layer", "q", "k", "v", "rows")))[:1] + _value("layer")  # `out` is left out
_NAMES = tuple(_value(name) for name in AttentionRows.__struct_fields__[:3])
_ROW = _value(dict.fromkeys(AttentionRows.__struct_fields__))[:1]
