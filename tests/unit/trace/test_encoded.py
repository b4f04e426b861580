"""The layout of captured layers, made before their values exist, has the bytes of the codec."""

from __future__ import annotations

import ctypes
from array import array
from typing import Any, Literal

import numpy as np
import pytest

from engine.cache.attention_span import AttentionSpan
from engine.cache.kv_store import LayerShape
from engine.model.capture_layout import FORM, SLICE, CaptureLayout
from engine.model.native import build_capture
from engine.trace import codec
from engine.trace.encoded import EncodedLayers
from engine.trace.records import AttentionRows, Capture, LayerCapture

NUMBERS = [0, 23, 127, 128, 255, 256, 300, 65_535, 65_536, 2**32 - 1, 2**32]  # of each encoded length in msgpack


Slice = tuple[int, int, int, int]  # sequence, position of its first new token, number of new tokens, first key
Layer = tuple[int, int, bool, bool]  # number, kind, has output, has every row of the selected heads


def lay_out(
    layout: CaptureLayout, slices: list[Slice], layers: list[Layer]
) -> tuple[bytearray, list[tuple[int, list[int]]]]:
    """Return the bytes of a step, and the offset and form of each layer."""
    longest = max((start + 1 - first for _, start, count, first in slices if count == 1), default=0)
    kinds, n, size = len(layout.kinds), len(slices), FORM + SLICE * len(slices)
    counts = n, sum(count for _, _, count, _ in slices), len(layers)
    known = [number for piece in slices for number in piece[:3]]
    step = array("q", (*counts, *[longest] * kinds, *known, *[first for *_, first in slices] * kinds))
    for number, kind, with_out, full in layers:
        step.extend((number, kind, with_out + 2 * full))
    result_at, num_layers = len(step), max(number for number, *_ in layers) + 1
    model = array("q", layout.model)
    model[2] = num_layers
    step.frombytes(bytes(8 * (2 * num_layers + 4 * kinds * size)))
    addresses = [x.buffer_info()[0] for x in (layout.pieces, model, step)]
    buffer = bytearray(b"\xaa") * layout.kernel.lay_out(*addresses, None)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    assert layout.kernel.lay_out(*addresses, begin) == len(buffer)
    captured = step[result_at:]
    forms = [list((ctypes.c_int64 * size).from_address(captured[2 * number + 1])) for number, *_ in layers]
    return buffer, [(captured[2 * number] - begin, form) for (number, *_), form in zip(layers, forms, strict=True)]


def filled(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return an array filled with the placeholder byte."""
    return np.frombuffer(b"\xaa" * (int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype).reshape(shape)


def rows_of(piece: Slice, heads: list[int], num_heads: int, full: bool, dtype: str) -> list[AttentionRows]:
    """Return the rows of a slice: all rows of `heads` if `full`, and the last row of the other heads."""
    seq_id, start, count, first = piece
    every = [] if count == 1 or not full else heads
    groups = (every, start, count), ([head for head in range(num_heads) if head not in every], start + count - 1, 1)
    return [
        AttentionRows(seq_id=seq_id, query_start=query, key_start=first, heads=of,
                      weights=filled((len(of), number, start + count - first), dtype))
        for of, query, number in groups if of
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("num_heads", "heads"), [(1, [0]), (4, [3, 1]), (17, list(range(17))), (3, [])])
def test_bytes_are_those_of_the_codec(dtype: Literal["float16", "float32"], num_heads: int, heads: list[int]) -> None:
    """Lengths cover every msgpack encoding. There are up to 22 slices, prefills between decodes, and skipped layers."""
    shapes = [LayerShape(2, 8, 6), LayerShape(1, 1, 70_000)]
    layout = CaptureLayout(build_capture(), dtype, num_heads, heads, shapes, [AttentionSpan(None), AttentionSpan(None)])
    few: list[Slice] = [(3, 200, 1, 0), (7, 40, 3, 0), (70_000, 41, 1, 34), (9, 5, 2, 4), (0, 0, 1, 0)]
    many: list[Slice] = [(n, n, 1, n - min(n, i)) for i, n in enumerate(NUMBERS)]
    for slices in ([], few, many, many * 2):
        layers = [
            (0, 0, False, True),
            (1, 1, False, False),
            (127, 0, True, True),
            (128, 1, False, True),
            (300, 0, True, False),
        ]
        encoded, placed = lay_out(layout, slices, layers)
        expected, tokens = [], sum(count for _, _, count, _ in slices)
        for number, kind, with_out, full in layers:
            num_kv_heads, width, v_width = shapes[kind]
            vectors = (num_heads, width), (num_kv_heads, width), (num_kv_heads, v_width)
            q, k, v = (filled((tokens, *x), dtype) for x in vectors)
            rows = [row for piece in slices for row in rows_of(piece, heads, num_heads, full, dtype)]
            out = filled((tokens, num_heads, v_width), dtype) if with_out else None
            expected.append(LayerCapture(layer=number, q=q, k=k, v=v, rows=rows, out=out))
        assert bytes(encoded) == codec.encode(expected)
        for one, (begin, form), (_, kind, with_out, full) in zip(expected, placed, layers, strict=True):
            of_slices = [form[i : i + SLICE] for i in range(FORM, len(form), SLICE)]
            assert form[:6] == [len(slices), tokens, num_heads, *shapes[kind]] and form[7] == (dtype == "float16")
            assert form[8] == (len(heads) if full else 0) and (form[13] >= 0) is with_out
            assert [piece[:2] for piece in of_slices] == [[c, start + c - first] for _, start, c, first in slices]
            places = [*form[10:13], *(place for piece in of_slices for place in piece[2:] if place >= 0)]
            arrays = [one.q, one.k, one.v, *(row.weights for row in one.rows)]
            if one.out is not None:
                places, arrays = [*places, form[13]], [*arrays, one.out]
            for place, numbers in zip(places, arrays, strict=True):
                head = codec.encode(numbers)[: -numbers.nbytes or None]
                assert encoded[begin + place - len(head) : begin + place] == head  # the values come next


def test_encoded_layers_can_be_read() -> None:
    layers = [
        LayerCapture(layer=n, q=filled((1, 2, 4), "f2"), k=filled((1, 1, 4), "f2"), v=filled((1, 1, 4), "f2"), rows=[])
        for n in (4, 9)
    ]
    encoded = EncodedLayers(bytearray(codec.encode(layers)), 2)
    assert len(encoded) == 2 and [layer.layer for layer in encoded] == [4, 9] == [layer.layer for layer in encoded[:]]
    assert np.array_equal(encoded[1].v, layers[1].v, equal_nan=True) and encoded[0].out is None
    assert codec.encode(encoded) == codec.encode(layers)
    capture = Capture(index=4, dtype="float16", layers=encoded)  # type: ignore[arg-type]
    assert [layer.layer for layer in codec.decode(codec.encode(capture), Capture).layers] == [4, 9]
    pieces = codec.encode_pieces(capture)
    assert b"".join(pieces) == codec.encode(capture) and any(piece is encoded.encoded for piece in pieces)


@pytest.mark.parametrize("length", [0, codec.LARGE // 4 - 1, codec.LARGE // 4, (1 << 14) - 2, (1 << 14) - 1, 1 << 15])
def test_joined_pieces_are_the_bytes_of_encode(length: int) -> None:
    """Lengths are on both sides of each form of msgpack's head, whose length includes 6 bytes of dtype and shape."""
    value = {"a": filled((length,), "f4"), "b": [1, filled((length, 2), "f2")[:, ::-1]]}
    pieces = codec.encode_pieces(value)
    assert b"".join(pieces) == codec.encode(value)
    assert any(isinstance(piece, memoryview) for piece in pieces) is (length * 4 >= codec.LARGE)
