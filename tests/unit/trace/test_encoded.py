"""A layer laid out before its numbers are there: the same bytes as the codec's."""

from __future__ import annotations

import numpy as np
import pytest

from engine.trace import codec
from engine.trace.encoded import DecodedRow, EncodedLayer, Layout
from engine.trace.records import AttentionRows, Capture, LayerCapture

ROWS = [DecodedRow(3, 200, 0, 201), DecodedRow(70_000, 41, 34, 8), DecodedRow(0, 0, 0, 1)]
SHAPES = ((3, 4, 8), (3, 2, 8), (3, 2, 6))  # q, k, v


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("number", [0, 127, 128, 300])  # one, two and three bytes
@pytest.mark.parametrize("with_out", [False, True])
def test_bytes_are_those_of_the_codec(number: int, dtype: str, with_out: bool) -> None:
    rng = np.random.default_rng(number)
    q, k, v = (rng.standard_normal(shape).astype(dtype) for shape in SHAPES)
    weights = [rng.random((4, 1, row.num_keys)).astype(dtype) for row in ROWS]
    out = rng.standard_normal((3, 4, 6)).astype(dtype) if with_out else None
    layout = Layout(dtype, *SHAPES, ROWS, None if out is None else out.shape)
    made = EncodedLayer(number, layout)
    arrays = (q, k, v, *weights) if out is None else (q, k, v, *weights, out)
    assert layout.num_bytes == sum(array.nbytes for array in arrays)
    for begin, array in zip(layout.places, arrays, strict=True):
        place = begin + made.begin
        assert made.encoded[place : place + array.nbytes] == bytes(array.nbytes)  # a gap
        made.encoded[place : place + array.nbytes] = array.tobytes()
    rows = [
        AttentionRows(seq_id=row.seq_id, query_start=row.query_start, key_start=row.key_start, heads=[0, 1, 2, 3],
                      weights=array)
        for row, array in zip(ROWS, weights, strict=True)
    ]  # fmt: skip
    whole = LayerCapture(layer=number, q=q, k=k, v=v, rows=rows, out=out)
    assert bytes(made.encoded) == codec.encode(whole)
    assert codec.encode([made]) == codec.encode([whole])
    assert np.array_equal(made.v, v) and made.rows[1].key_start == 34 and (made.out is None) is not with_out
    with pytest.raises(AttributeError):
        made.anything  # noqa: B018 - the attribute is asked for
    capture = Capture(index=4, dtype=dtype, layers=[made])  # type: ignore[list-item]
    assert np.array_equal(codec.decode(codec.encode(capture), Capture).layers[0].rows[0].weights, weights[0])


def test_a_layer_without_rows() -> None:
    made = EncodedLayer(1, Layout("float16", (0, 2, 4), (0, 1, 4), (0, 1, 4), []))
    empty = LayerCapture(
        layer=1, q=np.zeros((0, 2, 4), "f2"), k=np.zeros((0, 1, 4), "f2"), v=np.zeros((0, 1, 4), "f2"), rows=[]
    )
    assert bytes(made.encoded) == codec.encode(empty)
