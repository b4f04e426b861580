"""Recording of `generate` of transformers: it has transformers' arrays and changes no result."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.model.light_transformers import DynamicCache
from engine.observe.hf_recorder import WatchError, watch_generate
from engine.observe.hf_recorder import generate as watching
from engine.observe.hf_recorder.log import _Writer as Writer
from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.operations import Finish
from tests.tiny_models import tiny_model, tiny_tokenizer

PROMPTS = [[5, 9, 11, 3, 7, 8, 21, 4, 6], [40, 41, 42]]
NEW_TOKENS = 6


def padded(prompts: list[list[int]]) -> dict[str, torch.Tensor]:
    """Return the prompts padded on the left."""
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    return {"input_ids": ids, "attention_mask": mask}


def generate(model: Any, prompts: list[list[int]], **options: Any) -> list[list[int]]:
    """Generate greedily, without end tokens unless `options` set them."""
    settings = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "eos_token_id": None, "pad_token_id": 0, **options}
    with torch.inference_mode():
        out: list[list[int]] = model.generate(**padded(prompts), **settings).tolist()
    return out


def model_of(family: str, implementation: str) -> Any:
    model = tiny_model(family)
    model.set_attn_implementation(implementation)
    return model


@pytest.mark.parametrize(
    ("family", "implementation"),
    [
        ("llama", "sdpa"), ("llama", "eager"), ("llama_mqa", "sdpa"), ("gpt2", "sdpa"), ("qwen3", "sdpa"),
        ("mistral", "sdpa"), ("gemma2", "eager"), ("gpt_oss", "eager"),
    ],
)  # fmt: skip
def test_recorded_arrays_equal_those_of_transformers(family: str, implementation: str, tmp_path: Path):
    """Rows of two sequences in one padded batch equal those of an eager pass over each sequence."""
    model = model_of(family, implementation)
    plain = generate(model, PROMPTS)
    with watch_generate(model, tiny_tokenizer(), tmp_path / "run.kvtrace"):
        assert generate(model, PROMPTS) == plain
    assert model.config._attn_implementation == implementation and "generate" not in vars(model)
    model.set_attn_implementation("eager")
    with TraceReader(tmp_path / "run.kvtrace") as log:
        sequences = log.state_at(len(log) - 1).sequences
        for seq_id, prompt in enumerate(PROMPTS):
            tokens = sequences[seq_id].token_ids
            assert tokens == prompt + plain[seq_id][-NEW_TOKENS:]
            with torch.inference_mode():
                expected = model(torch.tensor([tokens[:-1]]), output_attentions=True)
            for layer, attention in enumerate(expected.attentions):
                compare_rows(log, seq_id, layer, attention[0].numpy(), len(tokens) - 1)
        for seq_id, prompt in enumerate(PROMPTS):  # log probabilities equal the model's
            first = next(o for o in log.record(1).outputs if o.seq_id == seq_id)
            with torch.inference_mode():
                logprobs = model(torch.tensor([prompt])).logits[0, -1].float().log_softmax(-1)
            assert first.logprob == pytest.approx(float(logprobs[first.token_id]), abs=1e-4)
            assert first.top[0].token_id == int(logprobs.argmax())


def compare_rows(log: TraceReader, seq_id: int, layer: int, expected: np.ndarray, num_rows: int) -> None:
    """Check that each computed position has a row that equals `expected`."""
    compared = set()
    for index in range(len(log)):
        capture = log.capture(index)
        for rows in [r for r in capture.layers[layer].rows if r.seq_id == seq_id] if capture else []:
            for i in range(rows.weights.shape[1]):
                query = rows.query_start + i
                row = np.zeros_like(expected[:, query])
                row[:, rows.key_start : rows.key_start + rows.weights.shape[2]] = rows.weights[:, i]
                np.testing.assert_allclose(row, expected[:, query], atol=2e-5)
                compared.add(query)
    assert compared == set(range(num_rows))


def test_a_batch_holds_its_slots_until_all_rows_end(tmp_path: Path):
    """The first pass takes 9 + 3 slots, each of five others two more, and all slots are freed at the end."""
    path, model = tmp_path / "run.kvtrace", tiny_model("llama")
    with watch_generate(model, tiny_tokenizer(), path):
        generate(model, PROMPTS)
    assert list(check(path)) == []
    with TraceReader(path) as log:
        assert log.damage is None and log.header.engine["strategy"] == "dynamic"
        assert [log.record(i).memory.blocks_held for i in range(len(log))] == [0, 12, 14, 16, 18, 20, 0]
        assert [e.phase for e in log.record(1).batch] == ["prefill", "prefill"]
        assert [(e.phase, e.start, e.context_len) for e in log.record(2).batch] == [("decode", 9, 10), ("decode", 3, 4)]
        assert log.header.kv_bytes_per_token == 3 * 2 * (8 + 8) * 4  # layers, KV heads, D + Dv, float32
        assert all(log.record(i).timing.forward > 0 for i in range(1, len(log)))


def test_a_row_that_ends_early_holds_memory_until_the_batch_ends(tmp_path: Path):
    model = tiny_model("llama")
    free = generate(model, PROMPTS)
    eos = free[1][len(free[1]) - NEW_TOKENS + 1]  # the second output token of row 2
    with watch_generate(model, None, tmp_path / "run.kvtrace"):
        generate(model, PROMPTS, eos_token_id=eos)
    with TraceReader(tmp_path / "run.kvtrace") as log:
        last = log.record(len(log) - 1)
        state = log.state_at(len(log) - 1)
        ended = state.sequences[1]
        assert ended.token_ids[3:].index(eos) == len(ended.token_ids) - 4 and ended.finish_reason == "stop"
        assert 1 not in {entry.seq_id for entry in last.batch}
        # the end token is computed with the next step of the other row; later padding is not recorded
        assert len(log.state_at(len(log) - 2).sequences[1].block_tables[0]) == len(ended.token_ids)
        assert ended.block_tables == [[]] and {op.seq_id for op in last.ops if isinstance(op, Finish)} == {0, 1}
    assert list(check(tmp_path / "run.kvtrace")) == []


def test_several_calls_and_num_return_sequences_are_recorded(tmp_path: Path):
    model = tiny_model("llama")
    with watch_generate(model, tiny_tokenizer(), tmp_path / "run.kvtrace"):
        generate(model, PROMPTS[:1])
        torch.manual_seed(0)
        out = generate(model, PROMPTS[:1], do_sample=True, num_return_sequences=3)
    assert list(check(tmp_path / "run.kvtrace")) == []
    with TraceReader(tmp_path / "run.kvtrace") as log:
        sequences = log.state_at(len(log) - 1).sequences
        names = [sequences[i].request_id for i in range(4)]
        assert names == ["generate-0-0", "generate-1-0", "generate-1-1", "generate-1-2"]
        assert [sequences[i].token_ids for i in (1, 2, 3)] == out
        assert log.header.engine["num_blocks"] == 3 * (9 + NEW_TOKENS)


def test_arrays_are_recorded_up_to_capture_bytes(tmp_path: Path):
    model = tiny_model("llama")
    with watch_generate(model, None, tmp_path / "run.kvtrace", capture_bytes=20_000):
        generate(model, PROMPTS)
    with TraceReader(tmp_path / "run.kvtrace") as log:
        has_capture = [log.record(i).has_capture for i in range(len(log))]
        assert has_capture[1] and not has_capture[-1]
        captured = [log.capture_bytes(i) or b"" for i in range(len(log))]
        assert sum(map(len, captured)) < 24_000
        assert list(check(tmp_path / "run.kvtrace")) == []


def test_an_error_during_generation_leaves_a_trace_of_the_earlier_steps(tmp_path: Path):
    model = tiny_model("llama")
    passes = 0

    def fail(*_: Any) -> None:
        nonlocal passes
        passes += 1
        if passes == 4:
            raise RuntimeError("out of memory")

    handle = model.model.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="out of memory"), watch_generate(model, None, tmp_path / "run.kvtrace"):
        generate(model, PROMPTS)
    handle.remove()
    with TraceReader(tmp_path / "run.kvtrace") as log:
        assert [log.record(i).kind for i in range(len(log))] == ["submit", "step", "step", "step", "abort"]
        assert {s.finish_reason for s in log.state_at(len(log) - 1).sequences.values()} == {"abort"}
    assert list(check(tmp_path / "run.kvtrace")) == []


def turns(model: Any) -> Any:
    """Run two turns that share a cache, so the second computes only new tokens."""
    cache = DynamicCache(config=model.config)
    first = model.generate(torch.tensor(PROMPTS[:1]), max_new_tokens=2, past_key_values=cache)
    more = torch.cat([first, torch.tensor(PROMPTS[1:])], 1)
    return model.generate(more, attention_mask=torch.ones_like(more), max_new_tokens=2, past_key_values=cache)


def with_embeddings(model: Any) -> Any:
    embeddings = model.get_input_embeddings()(torch.tensor(PROMPTS[:1]))
    return model.generate(inputs_embeds=embeddings, max_new_tokens=2)


def pad_right(model: Any) -> Any:
    inputs = {name: tensor.flip(1) for name, tensor in padded(PROMPTS).items()}
    return model.generate(**inputs, max_new_tokens=2)


def with_guidance(model: Any) -> Any:
    return model.generate(torch.tensor(PROMPTS[:1]), max_new_tokens=3, guidance_scale=1.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: generate(model, PROMPTS, num_beams=2), "beam search"),
        (lambda model: generate(model, PROMPTS, use_cache=False), "no cache"),
        (lambda model: generate(model, PROMPTS, cache_implementation="static"), "StaticCache"),
        (lambda model: generate(model, PROMPTS[:1], prompt_lookup_num_tokens=2), "assisted generation"),
        (lambda model: generate(model, PROMPTS[:1], assistant_model=tiny_model("llama")), "assisted generation"),
        (turns, "a cache with tokens"),
        (with_embeddings, "inputs_embeds"),
        (pad_right, "more than padding on the left"),
        (with_guidance, "no cache"),
    ],
)
def test_an_unsupported_call_runs_and_leaves_no_trace(call: Any, message: str, tmp_path: Path):
    """A trace covers all calls or is not written."""
    model = tiny_model("llama")
    plain = call(model)
    with (
        pytest.warns(RuntimeWarning, match=message),
        pytest.raises(WatchError, match=message),
        watch_generate(model, None, tmp_path / "run.kvtrace"),
    ):
        generate(model, PROMPTS)
        watched = call(model)
        assert torch.equal(torch.as_tensor(watched), torch.as_tensor(plain))
    assert "generate" not in vars(model) and model.config._attn_implementation == "eager"
    assert not list(tmp_path.iterdir())


def test_a_failing_recorder_does_not_fail_generate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model = tiny_model("llama")
    plain = generate(model, PROMPTS)
    monkeypatch.setattr(watching, "softmax_weights", None)
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(WatchError, match="could not be recorded"),
        watch_generate(model, None, tmp_path / "run.kvtrace"),
    ):
        assert generate(model, PROMPTS) == plain


def test_an_inconsistent_trace_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model = tiny_model("llama")
    schedule = Writer._schedule

    def skip_writes(self: Any, *args: Any) -> Any:
        batch = schedule(self, *args)
        self.ops.pop()  # a write
        return batch

    monkeypatch.setattr(Writer, "_schedule", skip_writes)
    with pytest.raises(WatchError, match="contradicts itself"), watch_generate(model, None, tmp_path / "run.kvtrace"):
        generate(model, PROMPTS)


def test_generate_on_another_thread_is_recorded(tmp_path: Path):
    """Given TextIteratorStreamer, generate runs on another thread than the reader of its text."""
    model, path = tiny_model("llama"), tmp_path / "run.kvtrace"
    plain = generate(model, PROMPTS[:1])
    with watch_generate(model, tiny_tokenizer(), path):
        thread = threading.Thread(target=generate, args=(model, PROMPTS[:1]))
        thread.start()
        thread.join()
    assert list(check(path)) == []
    with TraceReader(path) as log:
        assert log.state_at(len(log) - 1).sequences[0].token_ids == plain[0]
        assert log.record(1).has_capture


def test_generate_that_outlives_the_context_is_refused(tmp_path: Path):
    """Both calls of generate return their usual results, and no trace is written."""
    model, path = tiny_model("llama"), tmp_path / "run.kvtrace"
    plain = generate(model, PROMPTS)
    halfway, may_continue, found = threading.Event(), threading.Event(), []

    def wait(*_: Any) -> bool:
        halfway.set()
        may_continue.wait(60)
        return False

    def run() -> None:
        found.append(generate(model, PROMPTS[:1], stopping_criteria=[wait]))

    thread = threading.Thread(target=run)
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(WatchError, match=r"at once|still running"),
        watch_generate(model, None, path),
    ):
        thread.start()
        halfway.wait(60)
        assert generate(model, PROMPTS) == plain
    may_continue.set()
    thread.join()
    assert len(found[0][0]) == len(PROMPTS[0]) + NEW_TOKENS and not path.exists()


def test_without_a_supported_call_no_trace_is_written(tmp_path: Path):
    with pytest.raises(WatchError, match="nothing was generated"), watch_generate(tiny_model(), None, tmp_path / "a"):
        pass
    model = tiny_model("llama")
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(WatchError, match="flex_attention"), watch_generate(model, None, tmp_path / "a"):
        pass
    assert not (tmp_path / "a").exists()
