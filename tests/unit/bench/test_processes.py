"""Variants and peers in separate processes: results, memory, and failures."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from engine.bench.drive import run_engine
from engine.bench.models import Models
from engine.bench.peers.base import PeerError
from engine.bench.peers.process import LlamaCppPeer, ProcessPeer, VllmPeer
from engine.bench.runner import Runner
from engine.bench.workload import WorkloadRequest
from engine.config import EngineConfig, SamplingParams
from engine.model.loader import load_model
from tests.unit.bench.foreign_peer import FATAL, REFUSED
from tests.unit.bench.small import SMALL, TEXT, scenario


class _LastTokenPeer(ProcessPeer):
    package: ClassVar[str] = "last"
    module: ClassVar[str] = "sys"
    program: ClassVar[str] = "tests.unit.bench.foreign_peer"


@pytest.fixture
def last() -> Iterator[_LastTokenPeer]:
    peer = _LastTokenPeer()
    peer.load(Models(), "bundled", "float32")
    yield peer
    peer.close()


def _run(peer: ProcessPeer, *lengths: int) -> list[list[list[int]]]:
    requests = [WorkloadRequest([300, 301 + n], n, 0) for n in lengths]
    found = peer.run(requests, SamplingParams(temperature=0.0), EngineConfig())
    assert found.seconds == 2.0 and [request.ttft for request in found.requests] == [1.0] * len(lengths)
    assert found.resident_bytes is None or found.resident_bytes > 1 << 20
    return found.outputs


@pytest.mark.slow
def test_a_peer_process_serves_several_runs(last: _LastTokenPeer) -> None:
    assert last.version() == "last 1.0"
    assert _run(last, 3, 1) == [[[304] * 3], [[302]]]
    assert _run(last, 2) == [[[303] * 2]], "the same process serves another run"


@pytest.mark.slow
def test_errors_of_a_process_are_one_sentence(last: _LastTokenPeer) -> None:
    with pytest.raises(PeerError, match="ValueError: not so many"):
        _run(last, REFUSED)
    assert _run(last, 1) == [[[302]]]
    with pytest.raises(PeerError, match="last ended during its run"):
        _run(last, FATAL)
    other = _LastTokenPeer()
    with pytest.raises(PeerError, match="no float16"):
        other.load(Models(), "bundled", "float16")
    other.close()


def test_the_interpreter_of_kvtheater_peers_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = _LastTokenPeer()
    assert peer.interpreter() == sys.executable
    python = tmp_path / "last" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    monkeypatch.setenv("KVTHEATER_PEERS", str(tmp_path))
    assert peer.interpreter() == str(python)
    monkeypatch.setattr(_LastTokenPeer, "package", "other")
    monkeypatch.setattr(_LastTokenPeer, "module", "no_such_module")
    assert peer.interpreter() is None
    assert "tools.peer_environments" in str(peer.unavailable())


@pytest.mark.slow
def test_a_variant_in_its_own_process_gives_the_same_tokens_and_reports_memory() -> None:
    separate = [
        {"id": "apart", "title": TEXT, "apart": True},
        {"id": "generate", "title": TEXT, "apart": True, "peer": "transformers-dynamic"},
        {"id": "impossible", "title": TEXT, "apart": True, "set": {"engine.pool_slots": 4}},
    ]
    measure = [*SMALL["measure"], "resident_bytes", "resident_loaded_bytes"]
    record = Runner(
        scenario(rounds=1, variants=[*SMALL["variants"], *separate], measure=measure), quiet_seconds=0
    ).run()
    for at in record.axis_values:
        none, own_process, generate, impossible = (
            record.point(at, name) for name in ("none", "apart", "generate", "impossible")
        )
        assert none and own_process and generate and impossible
        assert none.tokens_identical and own_process.tokens_identical and generate.tokens_identical
        assert "resident_bytes" not in none.figures, "the benchmark's own process holds more than the variant"
        for point in (own_process, generate):
            assert point.figures["resident_bytes"].median > 50 << 20, "torch alone takes more"
        assert (
            own_process.figures["resident_loaded_bytes"].median > 50 << 20
            and "resident_loaded_bytes" not in generate.figures
        )
        assert own_process.figures["computed_tokens"].median == 7 * at, "5 prompt tokens and 2 of 3 new tokens"
        assert impossible.failed and not impossible.figures


def test_a_missing_vllm_is_reported_as_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = VllmPeer()
    monkeypatch.setenv("KVTHEATER_PEERS", str(tmp_path))
    assert "vllm is not installed" in str(peer.unavailable())
    python = tmp_path / "vllm" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert peer.unavailable() is None and peer.interpreter() == str(python)


def test_llama_cpp_agrees_with_the_engine_up_to_quantization() -> None:
    """The bundled model is converted to GGUF. The error of its log probabilities grows from 32 to 8 to 4 bits."""
    peer = LlamaCppPeer()
    if why := peer.unavailable():
        pytest.skip(why)
    engine = load_model("bundled", dtype="float32")
    assert engine.tokenizer is not None
    texts = [engine.tokenizer.encode(text) for text in ("Once upon a time there was", "春江潮水连海平，海上明月")]
    requests = [WorkloadRequest(prompt, 12, 0) for prompt in texts]
    sampling, config = SamplingParams(temperature=0.0, prompt_logprobs=0, ignore_eos=True), EngineConfig(num_blocks=64)
    expected = run_engine(engine, config, requests, sampling)
    errors = []
    for dtype in ("float32", "int8-weights", "int4-weights"):
        peer = LlamaCppPeer()
        peer.load(Models(), "bundled", dtype)
        found = peer.run(requests, sampling, config)
        peer.close()
        assert len(found.prompt_logprobs) == len(expected.prompt_logprobs) == sum(map(len, texts)) - len(texts)
        errors.append(np.abs(np.subtract(found.prompt_logprobs, expected.prompt_logprobs)).mean())
        if dtype == "float32":
            assert found.outputs == expected.outputs and "cyllama" in peer.version()
    assert errors[0] < 1e-4 < errors[1] < errors[2] < 0.5
