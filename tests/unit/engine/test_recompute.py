"""Recomputation of a sequence without a cache: equal rows, and no effect on the run."""

import numpy as np
import pytest

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model import recompute
from engine.model.capture import CaptureRequest
from engine.model.loader import from_module
from engine.model.recompute import RecomputeError, recompute_sequence
from tests.parity.harness import eager_forward
from tests.tiny_models import tiny_model
from tests.unit.engine.runs import GREEDY, PROMPTS, log_of, tiny_llama

CONFIG = EngineConfig(block_size=4, num_blocks=32, max_model_len=64, max_num_batched_tokens=7)


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt_oss", "gpt2"])
def test_recomputed_rows_and_keys_equal_those_of_transformers(family: str) -> None:
    module = tiny_model(family)
    tokens = PROMPTS[0]
    eager = eager_forward(module, tokens)
    model = from_module(module)
    for layer in range(model.facts.num_layers):
        done = recompute_sequence(model, 7, tokens, layer, [3, 1])
        rows = done.layers[0].rows[0]
        assert (rows.seq_id, rows.query_start, rows.key_start, rows.heads) == (7, 0, 0, [1, 3])
        assert rows.weights.dtype == np.float32
        np.testing.assert_allclose(rows.weights, eager.attentions[layer][0].numpy()[[1, 3]], atol=2e-6)
        keys = eager.past_key_values.layers[layer].keys[0].transpose(0, 1).numpy()  # [tokens or window, Hkv, D]
        np.testing.assert_allclose(done.layers[0].k[-len(keys) :], keys, atol=1e-5)


def test_recomputing_all_layers_equals_recomputing_each() -> None:
    model = from_module(tiny_model("llama"))
    full = recompute_sequence(model, 7, PROMPTS[0], None, [1])
    assert [arrays.layer for arrays in full.layers] == list(range(model.facts.num_layers))
    for arrays in full.layers:
        (single,) = recompute_sequence(model, 7, PROMPTS[0], arrays.layer, [1]).layers
        assert np.array_equal(arrays.k, single.k) and np.array_equal(arrays.v, single.v)
        assert np.array_equal(arrays.rows[0].weights, single.rows[0].weights)


def test_captured_rows_equal_the_recomputed_ones() -> None:
    """17 prompt tokens in chunks of 7 and 12 new tokens give 28 rows, each captured in its step."""
    capture = CaptureRequest(dtype="float32")
    with Engine(tiny_llama(), CONFIG, capture=capture) as engine:
        request = engine.add_request(PROMPTS[0], GREEDY)
        while engine.has_unfinished():
            engine.step()
        done = engine.recompute_attention(request.seq_id, layer=2)
        assert done.token_ids == request.sequence.token_ids
        full = done.layers[0].rows[0].weights
        compared = 0
        for index in range(len(log_of(engine))):
            captured = log_of(engine).capture(index)
            if captured is None:
                continue
            for rows in captured.layers[2].rows:
                _, count, width = rows.weights.shape
                expected = full[rows.heads, rows.query_start : rows.query_start + count, :width]
                np.testing.assert_allclose(rows.weights, expected, atol=1e-6)
                compared += count
        assert compared == len(request.sequence.token_ids) - 1  # the last sampled token is never computed


def test_recomputation_does_not_change_the_run() -> None:
    """Cache, log and random numbers do not depend on recomputations."""
    sampling = SamplingParams(max_tokens=10, temperature=1.5, ignore_eos=True)
    outputs = []
    for recomputes in (False, True):
        with Engine(tiny_llama(), CONFIG) as engine:
            requests = [engine.add_request(prompt, sampling) for prompt in PROMPTS[:3]]
            while engine.has_unfinished():
                engine.step()
                if not recomputes:
                    continue
                before, records = engine.snapshot(), len(log_of(engine))
                for request in requests:
                    engine.recompute_attention(request.seq_id, 0, [0])
                assert engine.snapshot() == before and len(log_of(engine)) == records
            outputs.append([request.output_token_ids for request in requests])
    assert outputs[0] == outputs[1]


def test_any_prefix_can_be_recomputed() -> None:
    with Engine(tiny_llama(), CONFIG) as engine:
        engine.add_request(PROMPTS[0], GREEDY)
        full = engine.recompute_attention(0, 1).layers[0].rows[0].weights
        for count in (1, 2, 9):
            part = engine.recompute_attention(0, 1, num_tokens=count).layers[0]
            assert part.k.shape[0] == count
            np.testing.assert_allclose(part.rows[0].weights, full[:, :count, :count], atol=1e-6)


def test_impossible_recomputations_are_refused_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine(tiny_llama(), CONFIG) as engine:
        engine.add_request(PROMPTS[0], GREEDY)
        with pytest.raises(RecomputeError, match="no sequence 5"):
            engine.recompute_attention(5, 0)
        with pytest.raises(RecomputeError, match="17 tokens, not 18"):
            engine.recompute_attention(0, 0, num_tokens=18)
        with pytest.raises(RecomputeError, match="at least one"):
            engine.recompute_attention(0, 0, [])
        with pytest.raises(RecomputeError, match=r"no attention layer \d"):
            engine.recompute_attention(0, engine.model.facts.num_layers)
        with pytest.raises(RecomputeError, match=r"no head -1; .* 0 to \d"):
            engine.recompute_attention(0, 0, [-1])
        monkeypatch.setattr(recompute, "MAX_WEIGHTS", 2 * 17**2)
        assert engine.recompute_attention(0, 0, [0, 1]).layers[0].rows[0].weights.shape == (2, 17, 17)
        with pytest.raises(RecomputeError, match=r"3 heads over 17 tokens are 867 numbers; at most 578"):
            engine.recompute_attention(0, 0, [0, 1, 2])
        with pytest.raises(RecomputeError, match=r"1 heads over 17 tokens in each of \d layers are .* one layer"):
            engine.recompute_attention(0, None, [0])
        monkeypatch.setattr(recompute, "MAX_SCORES", 4 * 17**2 - 1)
        with pytest.raises(RecomputeError, match="17 tokens need"):
            engine.recompute_attention(0, 0, [0])


def test_the_models_facts_determine_the_attention_weights() -> None:
    """Softmax of q · k with the scaling, softcap, sinks and window of the facts equals the captured row."""
    for family in ("llama", "gemma2", "gpt_oss"):
        model = from_module(tiny_model(family))
        facts, arrays = model.facts, recompute_sequence(model, 0, PROMPTS[0], 1, None).layers[0]
        last = len(PROMPTS[0]) - 1
        window = facts.sliding_windows[1]
        first = 0 if window is None else last - window + 1
        for head in range(facts.num_heads):
            keys = arrays.k[first:, head // facts.group_size].astype(np.float64)
            scores = keys @ arrays.q[last, head].astype(np.float64) * facts.scalings[1]
            cap, sinks = facts.softcaps[1], facts.sinks[1]
            if cap is not None:
                scores = cap * np.tanh(scores / cap)
            logits = scores if sinks is None else np.append(scores, sinks[head])
            weights = np.exp(logits - logits.max())
            weights = (weights / weights.sum())[: len(scores)]
            np.testing.assert_allclose(arrays.rows[0].weights[head, last, first:], weights, atol=1e-6)
    assert from_module(tiny_model("gemma2")).facts.softcaps == [2.0] * 3
    assert from_module(tiny_model("llama")).facts.sinks == [None] * 3
