"""A step's layers laid out before their numbers are there: the same bytes as the codec's."""

from __future__ import annotations

import ctypes
from array import array
from typing import Any, Literal

import numpy as np
import pytest

from engine.cache.attention_span import AttentionSpan
from engine.cache.kv_store import LayerShape
from engine.model.capture_decode import DecodeForms
from engine.model.native import build_capture
from engine.trace import codec
from engine.trace.encoded import EncodedLayers
from engine.trace.records import AttentionRows, Capture, LayerCapture

NUMBERS = [0, 23, 127, 128, 255, 256, 300, 65_535, 65_536, 2**32 - 1, 2**32]  # each length of a number in msgpack


def laid_out(
    forms: DecodeForms, rows: list[tuple[int, int, int]], layers: list[tuple[int, int, bool]]
) -> tuple[bytearray, array[int]]:
    """Rows (sequence, position of its query, first key), alike in every kind; layers (number, kind, with out)."""
    ids, positions, firsts = (list(one) for one in zip(*rows, strict=True)) if rows else ([], [], [])
    longest = max((p + 1 - f for p, f in zip(positions, firsts, strict=True)), default=0)
    kinds = len(forms.kinds)
    step = array("q", (len(rows), len(layers), *[longest] * kinds, *ids, *positions, *firsts * kinds))
    for layer in layers:
        step.extend(layer)
    written_at, num_layers = len(step), max(number for number, _, _ in layers) + 1
    model = array("q", forms.model)
    model[2] = num_layers
    step.frombytes(bytes(16 * (num_layers + kinds * (11 + 2 * len(rows)))))
    given = [x.buffer_info()[0] for x in (forms.pieces, model, step)]
    room = bytearray(b"\xaa") * forms.kernel.lay_out(*given, None)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(room))
    assert forms.kernel.lay_out(*given, begin) == len(room)
    captured = step[written_at:]
    forms_of = [(ctypes.c_int64 * (11 + 2 * len(rows))).from_address(captured[2 * n + 1]) for n, _, _ in layers]
    return room, array("q", [x for (n, _, _), f in zip(layers, forms_of, strict=True)
                             for x in (captured[2 * n] - begin, *f)])  # fmt: skip


def filled(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """An array of the byte that stands in gaps."""
    return np.frombuffer(b"\xaa" * (int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype).reshape(shape)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("num_heads", [1, 4, 17])
def test_bytes_are_those_of_the_codec(dtype: Literal["float16", "float32"], num_heads: int) -> None:
    """Lengths cover every msgpack encoding; 20 rows, none, and a layer without captures between."""
    shapes = [LayerShape(2, 8, 6), LayerShape(1, 1, 70_000)]
    forms = DecodeForms(build_capture(), dtype, num_heads, shapes, [AttentionSpan(None), AttentionSpan(None)])
    few, many = [(3, 200, 0), (70_000, 41, 34), (0, 0, 0)], [(n, n, n - min(n, i)) for i, n in enumerate(NUMBERS)]
    for rows in ([], few, many, many * 2):
        layers = [(0, 0, False), (1, 1, False), (127, 0, True), (128, 1, False), (300, 0, True)]
        made, placed = laid_out(forms, rows, layers)
        wanted = []
        for number, kind, with_out in layers:
            heads, width, v_width = shapes[kind]
            q, k, v = (filled((len(rows), *x), dtype) for x in ((num_heads, width), (heads, width), (heads, v_width)))
            of_rows = [
                AttentionRows(seq_id=seq_id, query_start=position, key_start=first, heads=list(range(num_heads)),
                              weights=filled((num_heads, 1, position + 1 - first), dtype))
                for seq_id, position, first in rows
            ]  # fmt: skip
            out = filled((len(rows), num_heads, v_width), dtype) if with_out else None
            wanted.append(LayerCapture(layer=number, q=q, k=k, v=v, rows=of_rows, out=out))
        assert bytes(made) == codec.encode(wanted)
        size = 11 + 2 * len(rows)
        for i, (one, (_, kind, with_out)) in enumerate(zip(wanted, layers, strict=True)):
            begin, *form = placed[i * (size + 1) : (i + 1) * (size + 1)]
            n, lengths, places = len(rows), form[7 : 7 + len(rows)], form[7 + len(rows) :]
            assert form[:5] == [n, num_heads, *shapes[kind]] and form[6] == (dtype == "float16")
            assert lengths == [row.weights.shape[2] for row in one.rows]
            assert (places[-1] >= 0) is with_out
            arrays = [one.q, one.k, one.v, *[row.weights for row in one.rows], *([one.out] if with_out else [])]
            for place, numbers in zip(places, arrays, strict=False):
                assert numbers is not None
                head = codec.encode(numbers)[: -numbers.nbytes or None]
                assert made[begin + place - len(head) : begin + place] == head  # the gap begins behind it


def test_layers_read_as_what_they_are() -> None:
    layers = [
        LayerCapture(layer=n, q=filled((1, 2, 4), "f2"), k=filled((1, 1, 4), "f2"), v=filled((1, 1, 4), "f2"), rows=[])
        for n in (4, 9)
    ]
    made = EncodedLayers(bytearray(codec.encode(layers)), 2)
    assert len(made) == 2 and [layer.layer for layer in made] == [4, 9] == [layer.layer for layer in made[:]]
    assert np.array_equal(made[1].v, layers[1].v, equal_nan=True) and made[0].out is None
    assert codec.encode(made) == codec.encode(layers)
    capture = Capture(index=4, dtype="float16", layers=made)  # type: ignore[arg-type]
    assert [layer.layer for layer in codec.decode(codec.encode(capture), Capture).layers] == [4, 9]
    pieces = codec.encode_pieces(capture)
    assert b"".join(pieces) == codec.encode(capture) and any(piece is made.encoded for piece in pieces)


@pytest.mark.parametrize("length", [0, codec.LARGE // 4 - 1, codec.LARGE // 4, (1 << 14) - 2, (1 << 14) - 1, 1 << 15])
def test_pieces_are_the_bytes_of_encode(length: int) -> None:
    """Lengths on both sides of each form of msgpack's head, which counts 6 bytes of dtype and shape."""
    value = {"a": filled((length,), "f4"), "b": [1, filled((length, 2), "f2")[:, ::-1]]}
    pieces = codec.encode_pieces(value)
    assert b"".join(pieces) == codec.encode(value)
    assert any(isinstance(piece, memoryview) for piece in pieces) is (length * 4 >= codec.LARGE)
