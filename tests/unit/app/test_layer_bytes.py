"""A layer's bytes from a capture equal those of decoding and encoding it."""

import msgspec
import numpy as np
import pytest

from app.server.api import layer_bytes
from engine.trace import codec
from engine.trace.records import AttentionRows, Capture, LayerCapture


def layer_capture(layer: int) -> LayerCapture:
    rng = np.random.default_rng(layer)
    q, k, v = (rng.normal(size=(3, heads, 4)).astype("float32") for heads in (4, 2, 2))
    rows = AttentionRows(seq_id=0, query_start=0, key_start=0, heads=[0, 1], weights=np.zeros((2, 3, 3), "float16"))
    return LayerCapture(layer=layer, q=q, k=k, v=v, rows=[rows])


def test_layer_bytes_equal_decoding_and_encoding() -> None:
    layers = [layer_capture(0), layer_capture(2), layer_capture(300)]
    payload = codec.encode(Capture(index=7, dtype="float32", layers=layers, omitted="layer 1"))
    for layer in layers:
        assert layer_bytes(payload, layer.layer) == codec.encode(layer)
    assert layer_bytes(payload, 1) is None
    assert layer_bytes(codec.encode(Capture(index=7, dtype="float32", layers=[])), 0) is None


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x80", b"\x81\xa6layers\x07"])
def test_invalid_captures_raise(payload: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        layer_bytes(payload, 0)
