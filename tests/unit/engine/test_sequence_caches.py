"""Per-sequence caches as in transformers: equal tokens, and copied bytes counted on the tensors."""

from pathlib import Path

import pytest
import torch
from msgspec.structs import replace

from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.model.copies import CopyCounter
from engine.requests.request_spec import RequestError
from engine.trace.check import check
from engine.trace.records import CacheTensors
from tests.unit.engine.runs import GREEDY, PROMPTS, log_of, outputs_of, tiny_llama

KINDS = ("concat", "dynamic", "static")
CONFIG = EngineConfig(block_size=4, num_blocks=40, max_model_len=40, count_copies=True)


def steps_of(strategy: str, prompt: list[int], path: Path | None = None) -> tuple[list[CacheTensors], int]:
    """Return each step's effect on the tensors in a run of one request, and the bytes of a token."""
    config = replace(CONFIG, strategy=strategy)
    with Engine(tiny_llama(), config, log_path=path) as engine:
        engine.add_request(prompt, GREEDY)
        found = []
        while engine.has_unfinished():
            record = engine.step()
            assert record.cache_tensors is not None
            found.append(record.cache_tensors)
            engine.check_integrity()
        return found, log_of(engine).header.kv_bytes_per_token


def test_a_moved_tensor_counts_as_fully_copied() -> None:
    stays, grows = torch.zeros(3, 5), torch.zeros(2, 4)
    counter = CopyCounter({"a": stays, "b": grows, "gone": torch.zeros(9)})
    stays[0] = 1
    grown = torch.cat([grows, torch.zeros(1, 4)])
    counted = counter.compare({"a": stays, "b": grown, "new": torch.zeros(7)}, copied_blocks=100)
    # the grown tensor copies 2 x 4 float32; 15 + 12 + 7 are stored afterwards
    assert counted == CacheTensors(copied_bytes=32 + 100, num_copied=1, storage_bytes=4 * (15 + 12 + 7))


@pytest.mark.parametrize("kind", ("concat", "dynamic"))
def test_concatenation_copies_all_earlier_tokens_in_every_step(kind: str) -> None:
    """The i-th step after a prompt of 17 copies 17 + i - 1 tokens in 2 tensors of each of 3 layers."""
    found, per_token = steps_of(kind, PROMPTS[0])
    assert [step.copied_bytes for step in found] == [0, *((17 + i) * per_token for i in range(11))]
    assert [step.num_copied for step in found] == [0] + [2 * 3] * 11
    assert [step.storage_bytes for step in found] == [(17 + i) * per_token for i in range(12)]


@pytest.mark.parametrize("strategy", ("static", "paged", "contiguous", "none"))
def test_writes_in_place_copy_nothing(strategy: str) -> None:
    found, per_token = steps_of(strategy, PROMPTS[0])
    assert {(step.copied_bytes, step.num_copied) for step in found} == {(0, 0)}
    slots = 40 if strategy == "static" else 40 * 4  # one sequence of max_model_len, or the pool
    assert {step.storage_bytes for step in found} == {slots * per_token}


def test_copied_blocks_are_counted(tmp_path: Path) -> None:
    """Two samples share the partial tail block of a prompt of 17, and the first to write copies 4 tokens."""
    with Engine(tiny_llama(), CONFIG) as engine:
        engine.add_request(PROMPTS[0], SamplingParams(n=2, temperature=1.0, max_tokens=3, ignore_eos=True))
        copied = []
        while engine.has_unfinished():
            counted = engine.step().cache_tensors
            assert counted is not None
            copied.append(counted.copied_bytes)
        assert copied == [0, 4 * log_of(engine).header.kv_bytes_per_token, 0]


def test_copies_are_counted_only_on_request() -> None:
    with Engine(tiny_llama(), replace(CONFIG, count_copies=False)) as engine:
        engine.add_request(PROMPTS[0], GREEDY)
        assert engine.step().cache_tensors is None


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_equal_those_of_the_paged_cache(kind: str) -> None:
    """Prompts are computed in chunks of 7 with preemption, and at once in a pool that holds all of them."""
    expected = outputs_of(EngineConfig(block_size=4, num_blocks=64, max_model_len=48))
    small = EngineConfig(strategy=kind, block_size=4, num_blocks=24, max_model_len=32, max_num_batched_tokens=7)  # type: ignore[arg-type]
    assert outputs_of(small) == expected
    assert outputs_of(replace(small, num_blocks=64, max_num_batched_tokens=512)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_an_attention_window_gives_the_tokens_of_the_paged_cache(kind: str) -> None:
    window = {"attention_window": 6, "attention_sinks": 3, "max_model_len": 32, "num_blocks": 64}
    assert outputs_of(EngineConfig(strategy=kind, **window)) == outputs_of(EngineConfig(**window))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_captured_arrays_equal_those_of_the_paged_cache(kind: str, tmp_path: Path) -> None:
    captured = []
    for strategy in ("paged", kind):
        path = tmp_path / f"{strategy}.kvtrace"
        config = replace(CONFIG, strategy=strategy, enable_prefix_caching=False)
        with Engine(tiny_llama(), config, log_path=path, capture=CaptureRequest(dtype="float32")) as engine:
            for prompt in PROMPTS[:3]:
                engine.add_request(prompt, GREEDY)
            records = [engine.step() for _ in range(3)]
            captured.append([log_of(engine).capture(record.index) for record in records])
        assert list(check(path)) == []
    for ours, theirs in zip(*captured, strict=True):
        assert ours is not None and theirs is not None
        for a, b in zip(ours.layers, theirs.layers, strict=True):
            torch.testing.assert_close(torch.tensor(a.k), torch.tensor(b.k))
            for row, other in zip(a.rows, b.rows, strict=True):
                assert (row.seq_id, row.query_start, row.key_start) == (
                    other.seq_id,
                    other.query_start,
                    other.key_start,
                )
                torch.testing.assert_close(torch.tensor(row.weights), torch.tensor(other.weights))


def test_tensors_are_freed_with_their_sequences() -> None:
    with Engine(tiny_llama(), replace(CONFIG, strategy="dynamic")) as engine:
        first, second = (engine.add_request(prompt, GREEDY) for prompt in PROMPTS[:2])
        engine.step()
        caches = engine._runner.sequence_caches
        assert caches is not None and {seq_id for seq_id, *_ in caches.tensors()} == {0, 1}
        engine.abort(first.request_id)
        assert {seq_id for seq_id, *_ in caches.tensors()} == {second.seq_id}
        while engine.has_unfinished():
            engine.step()
        assert not caches.tensors()


def test_unsupported_options_of_sequence_caches_are_refused() -> None:
    with pytest.raises(ConfigError, match="kv_cache_dtype must be auto"):
        Engine(tiny_llama(), replace(CONFIG, strategy="dynamic", kv_cache_dtype="int8"))
    with pytest.raises(ConfigError, match="static reserves 40 slots per sequence"):
        Engine(tiny_llama(), replace(CONFIG, strategy="static", num_blocks=8))
    with (
        Engine(tiny_llama(), replace(CONFIG, strategy="concat")) as engine,
        pytest.raises(RequestError, match="strategy concat stores each sequence in its own piece"),
    ):
        engine.add_request(PROMPTS[0], SamplingParams(n=2, temperature=1.0, max_tokens=4))
