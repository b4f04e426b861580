"""Capture arrays in the log's encoding, laid out before their values are computed.

    layers [{layer, q, k, v, rows [{seq_id, ..., weights}]}]   ->   bytes with gaps, and the offset of each gap

The kernels write their rounded results into the gaps, so values are copied once and no array object is created.
`engine/model/kernels/layout.c` assembles the bytes from `pieces`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import msgspec

from engine.trace import codec
from engine.trace.records import AttentionRows, LayerCapture

_value = msgspec.msgpack.encode


def pieces(full: list[int], others: list[int]) -> list[bytes]:
    """Return the encoded bytes that precede each value of a capture's layers. `full`: heads of which every row of a
    prefill may be captured. `others`: the other heads.

    The values are, in this order: the number of a layer without `out`, and of one with `out`; its q, k and v; the list
    of rows; a row's sequence, query, first key, and weights of all heads, of `full` and of `others`; and `out`.
    """
    layer, *arrays, rows, out = LayerCapture.__struct_fields__
    seq_id, query_start, key_start, heads, weights = AttentionRows.__struct_fields__
    names = (layer, *arrays, rows)
    without, with_out = (_value(dict.fromkeys(n))[:1] + _value(layer) for n in (names, (*names, out)))
    row = _value(dict.fromkeys(AttentionRows.__struct_fields__))[:1]
    before_weights = (_value(heads) + _value(of) + _value(weights) for of in (sorted(full + others), full, others))
    row_pieces = row + _value(seq_id), _value(query_start), _value(key_start), *before_weights
    return [without, with_out, *map(_value, arrays), _value(rows), *row_pieces, _value(out)]


class EncodedLayers(codec.Encoded, Sequence[LayerCapture]):
    """Encoded layers of a step. Items are decoded copies."""

    def __init__(self, encoded: codec.Piece, length: int) -> None:
        """`length`: number of layers."""
        super().__init__(encoded)
        self._length = length

    def decoded(self) -> list[LayerCapture]:
        """Return all layers."""
        return codec.decode(self.encoded, list[LayerCapture])

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[LayerCapture]:
        return iter(self.decoded())

    @overload
    def __getitem__(self, index: int) -> LayerCapture: ...
    @overload
    def __getitem__(self, index: slice) -> list[LayerCapture]: ...
    def __getitem__(self, index: int | slice) -> LayerCapture | list[LayerCapture]:
        return self.decoded()[index]
