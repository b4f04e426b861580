"""Event `recompute`: a layer of a sequence without the cache, over a real socket."""

import numpy as np

from engine.trace import codec
from engine.trace.records import Capture, LayerCapture, StepRecord
from engine.trace.residual import Projection, ResidualStream
from tests.server.conftest import Client, wait_for

POEM = "春江潮水连海平，海上明月共潮生。"


def test_recompute_answers_without_changing_the_log(server, client, theater):
    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
    client.do("step", theater=theater)
    answer = client.do("recompute", theater=theater, seq_id=0, layer=1, heads=[1])
    arrays = codec.decode(answer["arrays"], LayerCapture)
    assert answer["epoch"] == 0 and answer["token_ids"] == [97, 98, 99, 100]
    assert (arrays.layer, arrays.rows[0].heads, arrays.rows[0].weights.shape) == (1, [1], (1, 4, 4))
    assert client.do("recompute", theater=theater, seq_id=0, layer=0, num_tokens=2)["token_ids"] == [97, 98]
    assert client.do("step", theater=theater)["num_records"] == 3
    assert len(server.model.threads) == 1  # on the thread that owns the engine


def test_recompute_without_a_layer_returns_all_layers(client, theater):
    client.do("submit", theater=theater, prompts=[{"text": "abc"}])
    client.do("step", theater=theater)
    answer = client.do("recompute", theater=theater, seq_id=0, layer=None, heads=[1])
    layers = [codec.decode(arrays, LayerCapture) for arrays in answer["arrays"]]
    assert [(one.layer, one.rows[0].heads) for one in layers] == [(0, [1]), (1, [1])]


def test_refusals(client, theater):
    error = client.refused("recompute", theater=theater, seq_id=3, layer=0)
    assert (error["code"], error["message"]) == ("refused", "there is no sequence 3 in this run")
    assert client.refused("recompute", theater=theater, seq_id=0, layer=2)["message"] == "layer: 2 is not among 0..1"
    assert client.refused("recompute", theater="gone", seq_id=0, layer=0)["code"] == "unknown_theater"


def test_recompute_is_answered_while_a_session_runs(server, client, theater):
    server.model.step_seconds = 0.01
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 400})
    client.do("run", theater=theater, speed=0)
    wait_for(lambda: len(client.records()) > 3)
    assert len(client.do("recompute", theater=theater, seq_id=0, layer=0)["token_ids"]) > 3
    assert client.do("pause", theater=theater)["status"]["error"] is None


def test_projections_of_heads_that_are_not_there_and_of_models_without_them(client, theater):
    message = {"theater": theater, "layer": 0, "part": "k"}
    error = client.refused("projection", **message, head=1)
    assert error == {"code": "bad_request", "message": "head: 1 is not among 0..0"}
    assert client.refused("projection", **message | {"layer": 2}, head=0)["code"] == "bad_request"
    assert client.refused("projection", **message, head=0) == {"code": "refused", "message": "the fake has no weights"}


def test_earlier_rows_of_the_live_model_equal_recomputed_ones(viewer: Client) -> None:
    """Two prompts decode side by side; every captured row of the first, of whatever step, is reproduced."""
    theater = viewer.do("create", config={"block_size": 4})["theater"]
    prompts = [{"text": POEM}, {"text": "Once upon a time"}]
    viewer.do("submit", theater=theater, prompts=prompts, sampling={"max_tokens": 8, "ignore_eos": True})
    performed = viewer.do("step", theater=theater, count=100)["performed"]
    wait_for(lambda: len(viewer.records()) == 1 + performed)
    records = [codec.decode(r, StepRecord) for r in viewer.records()]
    captures = [codec.decode(c, Capture) for b in viewer.batches for c in b["captures"] if c is not None]
    assert {c.dtype for c in captures} == {"float32"}
    answer = viewer.do("recompute", theater=theater, seq_id=0, layer=2)  # it is finished by now
    whole = codec.decode(answer["arrays"], LayerCapture)
    compared, largest = 0, 0.0
    for capture in captures:
        offset = 0
        for entry in records[capture.index].batch:
            count = len(entry.token_ids)
            if entry.seq_id == 0:
                (rows,) = [r for r in capture.layers[2].rows if r.seq_id == 0]
                width = rows.weights.shape[2]
                again = whole.rows[0].weights[:, entry.start : entry.start + count, :width]
                keys = whole.k[entry.start : entry.start + count]
                largest = max(
                    largest,
                    float(np.abs(rows.weights - again).max()),
                    float(np.abs(capture.layers[2].k[offset : offset + count] - keys).max()),
                )
                compared += count
            offset += count
    assert compared == len(answer["token_ids"]) - 1
    assert largest < 2e-5, largest


def test_the_live_models_residual_stream_ends_in_the_token_that_greedy_sampling_took(viewer: Client) -> None:
    theater = viewer.do("create", config={"block_size": 4})["theater"]
    viewer.do("submit", theater=theater, prompts=[{"text": POEM}], sampling={"temperature": 0, "max_tokens": 4})
    performed = viewer.do("step", theater=theater, count=20)["performed"]
    wait_for(lambda: len(viewer.records()) == 1 + performed)
    tokens = viewer.do("recompute", theater=theater, seq_id=0, layer=1)["token_ids"]
    message = {"theater": theater, "seq_id": 0, "layer": 1, "heads": [0], "num_tokens": len(tokens) - 2}
    answer = viewer.do("recompute", **message, residual=1)
    stream = codec.decode(answer["residual"]["stream"], ResidualStream)
    assert stream.position == len(tokens) - 3 and not stream.missing
    assert stream.lens[-1][0].token_id == tokens[-2]
    arrays = codec.decode(answer["arrays"], LayerCapture)  # with the layer itself, of every position
    assert arrays.k.shape[0] == len(tokens) - 2 and "residual" not in viewer.do("recompute", **message)
    assert answer["residual"]["linear_flops"] > answer["residual"]["attention_flops"] > 0
    assert "one layer" in viewer.refused("recompute", **{**message, "layer": None}, residual=1)["message"]
    message = {"theater": theater, "layer": 1, "part": "v", "head": 1}  # and the matrix that makes a value of it
    weights = codec.decode(viewer.do("projection", **message)["projection"], Projection)
    made = weights.weight @ stream.vectors["attention_in"] + weights.bias
    np.testing.assert_allclose(made, arrays.v[-1, 1], atol=1e-4)
