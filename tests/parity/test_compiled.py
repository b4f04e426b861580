"""Compiled forward pass against the eager one: logits, captured arrays, tokens; when it is used and when not."""

import dataclasses
import gc
import logging
import shutil
import sys
import threading
import time
import weakref
from array import array
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from torch._subclasses.fake_tensor import FakeTensor

from engine.cache.attention_span import WindowPolicy
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model import compiled, served_check
from engine.model.ahead_of_time import CompiledGraph
from engine.model.attention import StepContext, attending
from engine.model.attention_backend import AttentionBackend
from engine.model.capture import CaptureRequest
from engine.model.compiled import compile_in_background, compile_model
from engine.model.compiled_forward import CompiledForward
from engine.model.errors import ModelError
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module, load_model
from engine.model.native_step import ActiveStep, StepLayout
from engine.model.served_check import check_compiled
from engine.model.thread_count import ThreadCount
from engine.trace import codec
from engine.trace.records import StepRecord
from tests.parity.harness import TOLERANCE, Driver, mixed_schedule, random_prompt
from tests.tiny_models import VOCAB_SIZE, tiny_model

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")]
SEQUENCES = {seq: random_prompt(length, VOCAB_SIZE, seq) for seq, length in {5: 14, 9: 18, 2: 11}.items()}
FAMILIES = ["bundled", "gemma2"]  # a Llama, grouped heads; the second with sliding windows and softcaps
# one of each kind
TWO_LAYERS: dict[str, Any] = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]}
WITHIN = {"bundled": 5 * TOLERANCE, "int4": 5 * TOLERANCE, "gemma2": TOLERANCE}  # a trained model has larger logits


class Compiled:
    """Models by family, each compiled once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[LoadedModel, CompiledForward]] = {}

    def __call__(self, name: str) -> tuple[LoadedModel, CompiledForward]:
        if name not in self._known:
            dtype = {"bundled": "auto", "int4": "int4-weights"}.get(name)
            model = load_model(dtype=dtype) if dtype else from_module(tiny_model(name, **TWO_LAYERS))
            self._known[name] = model, compile_model(model)
        return self._known[name]


@pytest.fixture(scope="module")
def compile_once() -> Compiled:
    return Compiled()


@pytest.fixture
def without_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile in the other way: that of GPUs, and where no library can be built."""

    def fails(*_: Any) -> Any:
        raise RuntimeError("no library")

    monkeypatch.setattr(compiled, "forward_key", lambda *_: None)
    monkeypatch.setattr(compiled, "make_libraries", fails)


def storage_uses(storage: torch.UntypedStorage) -> int:
    """Return the number of tensors and Python objects that hold this memory."""
    uses: int = torch._C._storage_Use_Count(storage._cdata)  # type: ignore[attr-defined]
    return uses


def driven(model: LoadedModel, forward: CompiledForward | None, capture: CaptureRequest | None = None) -> Any:
    driver = Driver(model, 4, 16)
    driver.runner.compiled = forward
    return driver, mixed_schedule(driver, SEQUENCES, capture)


@pytest.mark.parametrize("family", [*FAMILIES, "int4"])
def test_logits_of_mixed_steps(family: str, compile_once: Compiled) -> None:
    """Steps have whole and chunked prefills, chunks that sample nothing, and decodes of one and of several
    sequences.
    """
    model, forward = compile_once(family)
    (eager, _), (fast, _) = driven(model, None), driven(model, forward)
    assert len(fast.logits) == 25 and fast.logits.keys() == eager.logits.keys()
    for key, logits in fast.logits.items():
        assert (logits - eager.logits[key]).abs().max() <= WITHIN[family], key


@pytest.mark.parametrize("family", FAMILIES)
def test_captured_arrays(family: str, compile_once: Compiled) -> None:
    """Capturing changes no logit; the captures equal the eager path's, although compiled buffers are reused."""
    model, forward = compile_once(family)
    request = CaptureRequest(dtype="float32", outputs=True)
    (_, eager), (watched, fast), (plain, _) = (
        driven(model, None, request), driven(model, forward, request), driven(model, forward)
    )  # fmt: skip
    assert all(torch.equal(plain.logits[key], watched.logits[key]) for key in plain.logits)
    for one, other in zip(fast, eager, strict=True):
        assert [layer.layer for layer in one.layers] == [layer.layer for layer in other.layers] != []
        for mine, reference in zip(one.layers, other.layers, strict=True):
            for name in ("q", "k", "v", "out"):
                np.testing.assert_allclose(getattr(mine, name), getattr(reference, name), atol=TOLERANCE)
            for row, expected in zip(mine.rows, reference.rows, strict=True):
                assert (row.seq_id, row.query_start, row.key_start, row.heads) == (
                    expected.seq_id, expected.query_start, expected.key_start, expected.heads
                )  # fmt: skip
                np.testing.assert_allclose(row.weights, expected.weights, atol=TOLERANCE)


@pytest.mark.parametrize("request_for", [None, CaptureRequest(outputs=True), CaptureRequest(layers=[1], only=True)])
@pytest.mark.parametrize("policy", [None, WindowPolicy(6, 2)])
@pytest.mark.parametrize("family", FAMILIES)
def test_layers_attend_without_python(
    family: str,
    policy: WindowPolicy | None,
    request_for: CaptureRequest | None,
    compile_once: Compiled,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Results equal those with Python attending in every layer bit by bit, arrays included."""
    model, forward = compile_once(family)
    assert forward.kernel is not None
    memory = storages_of_attention(monkeypatch)
    found = []
    for way in (forward, dataclasses.replace(forward, kernel=None)):
        memory.clear()
        driver = Driver(model, 4, 16, policy=policy)
        driver.runner.compiled = way
        results = mixed_schedule(driver, SEQUENCES, request_for)
        found.append((driver.logits, [codec.encode(result.layers) for result in results], len(memory)))
    (logits, arrays, in_python), (expected, expected_arrays, in_every_layer) = found
    assert all(torch.equal(logits[key], expected[key]) for key in expected) and arrays == expected_arrays
    assert in_every_layer == 4 * len(results) * model.facts.num_layers and in_python == 0


def test_records_contain_the_time_of_a_pass(compile_once: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are those of the clock and of the computing thread, from the first layer to the last."""
    model, forward = compile_once("gemma2")
    found: list[tuple[float, float]] = []
    monkeypatch.setattr(ThreadCount, "note", lambda self, wall, cpu: found.append((wall, cpu)))
    driver = Driver(model, 4, 16)
    driver.runner.compiled = forward
    began, cpu_began = time.perf_counter(), time.thread_time()
    mixed_schedule(driver, SEQUENCES)
    wall, cpu = time.perf_counter() - began, time.thread_time() - cpu_began
    assert all(min(times) > 0 for times in found)
    assert sum(times[0] for times in found) < wall and sum(times[1] for times in found) < cpu


def test_fewer_threads_are_for_one_pass_and_thread(compile_once: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that starts during such a pass gets all threads; results do not depend on the number."""
    model, forward = compile_once("gemma2")
    assert forward.kernel is not None
    logits, during, before = [], list[int](), torch.get_num_threads()

    for count in (3, 1):
        layout = StepLayout(array("q", (0, 0, 0, 0, count)), ThreadCount())
        with ActiveStep(forward.kernel, layout), ThreadPoolExecutor(1) as other:
            during.extend((torch.get_num_threads(), other.submit(torch.get_num_threads).result()))
        monkeypatch.setattr(ThreadCount, "choose", lambda self, count=count: count)
        driver = Driver(model, 4, 16)
        driver.runner.compiled = forward
        mixed_schedule(driver, SEQUENCES)
        logits.append(driver.logits)
    assert during == [3, before, 1, before] and torch.get_num_threads() == before
    assert all(torch.equal(logits[0][key], logits[1][key]) for key in logits[1])


def storages_of_attention(monkeypatch: pytest.MonkeyPatch) -> list[torch.UntypedStorage]:
    """Return a list to which each layer in which Python attends adds the memory of q, k, v and its output."""
    found: list[torch.UntypedStorage] = []
    attend = StepContext.attend

    def noted(context: StepContext, call: Any, *tensors: torch.Tensor) -> torch.Tensor:
        out = attend(context, call, *tensors)
        found.extend(tensor.untyped_storage() for tensor in (*tensors, out))
        return out

    monkeypatch.setattr(StepContext, "attend", noted)
    return found


@pytest.mark.parametrize("request_for", [None, CaptureRequest(outputs=True)])
def test_unsupported_stores_fall_back_to_python(
    request_for: CaptureRequest | None, compile_once: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store of another dtype gives the same result as without C; no tensor passed to Python outlives its step;
    Python's exceptions propagate unchanged.
    """
    model, forward = compile_once("gemma2")
    memory, found = storages_of_attention(monkeypatch), []
    for way in (forward, dataclasses.replace(forward, kernel=None)):
        driver = Driver(model, 4, 16, kv_cache_dtype="int8")
        driver.runner.compiled = way
        results = mixed_schedule(driver, SEQUENCES, request_for)
        found.append((driver.logits, [codec.encode(result.layers) for result in results]))
    (logits, arrays), (expected, expected_arrays) = found
    assert all(torch.equal(logits[key], expected[key]) for key in expected) and arrays == expected_arrays
    assert len(memory) == 2 * 4 * len(results) * model.facts.num_layers
    del results, driver
    gc.collect()
    assert {storage_uses(storage) for storage in memory} == {storage_uses(torch.ones(1).untyped_storage())}

    class Full(AttentionBackend):
        def forward(self, *_: Any) -> Any:
            raise MemoryError("there is none left")

    driver = Driver(model, 4, 16, kv_cache_dtype="int8")
    driver.runner.compiled = dataclasses.replace(forward, backend=Full())
    with pytest.raises(MemoryError, match=r"^there is none left$"):
        driver.step([driver.slice(5, SEQUENCES[5], 3)])
    driver.runner.compiled = forward  # and the next step is served
    driver.step([driver.slice(9, SEQUENCES[9], 3)])


def run(model: LoadedModel, config: EngineConfig, prompts: list[list[int]]) -> tuple[list[list[int]], list[StepRecord]]:
    """Serve outputs of different lengths, so that the batch shrinks; return the steps."""
    with Engine(model, config) as engine:
        requests = [
            engine.add_request(prompt, SamplingParams(max_tokens=6 + 3 * (i % 5), ignore_eos=True))
            for i, prompt in enumerate(prompts)
        ]
        records = []
        while engine.has_unfinished():
            records.append(engine.step())
    return [request.output_token_ids for request in requests], records


@pytest.mark.parametrize("name", FAMILIES)
def test_greedy_tokens(name: str, compile_once: Compiled) -> None:
    """Up to 6 of 9 sequences share a budget of 24 tokens: steps mix chunks and decodes, with preemption."""
    model, forward = compile_once(name)
    prompts = [random_prompt(4 + 5 * (i % 4), min(model.facts.vocab_size, 4000), i) for i in range(9)]
    config = EngineConfig(block_size=4, num_blocks=30, max_num_seqs=6, max_num_batched_tokens=24, max_model_len=64)
    model.compiled = forward
    try:
        expected, eager = run(model, replace(config, enforce_eager=True), prompts)
        found, fast = run(model, config, prompts)
    finally:
        model.compiled = None
    assert found == expected
    assert not any(r.timing.compiled for r in eager) and all(r.timing.compiled for r in fast)
    for one, other in zip(fast, eager, strict=True):
        assert (one.batch, one.ops, one.memory) == (other.batch, other.ops, other.memory)
        for output, reference in zip(one.outputs, other.outputs, strict=True):
            assert abs(output.logprob - reference.logprob) < 1e-4


def test_a_run_is_never_switched(compile_once: Compiled) -> None:
    """The compiled path is used only once nothing is unfinished."""
    model, forward = compile_once("gemma2")
    with Engine(model, EngineConfig(block_size=4, num_blocks=16)) as engine:
        engine.add_request([5, 6, 7], SamplingParams(max_tokens=4, ignore_eos=True))
        used = [engine.step().timing.compiled]
        model.compiled = forward
        try:
            engine.add_request([8, 9], SamplingParams(max_tokens=2, ignore_eos=True))
            while engine.has_unfinished():
                used.append(engine.step().timing.compiled)
            assert used == [False] * 4
            engine.add_request([8, 9], SamplingParams(max_tokens=2, ignore_eos=True))
            assert engine.step().timing.compiled
        finally:
            model.compiled = None


def test_the_first_token_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler is blocked while the eager path serves a whole request."""
    model = from_module(tiny_model("llama"))
    begun, go_on = threading.Event(), threading.Event()

    def held_up(_: LoadedModel) -> Any:
        begun.set()
        go_on.wait(30)
        raise RuntimeError("never mind")

    monkeypatch.setattr(compiled, "compile_model", held_up)
    compilation = compile_in_background(model)
    assert begun.wait(30)
    outputs, _ = run(model, EngineConfig(block_size=4, num_blocks=16), [[5, 6, 7]])
    assert len(outputs[0]) == 6 and compilation.is_alive()
    go_on.set()
    compilation.join(30)
    assert not compilation.is_alive()


def test_the_work_of_a_step_is_what_its_pass_computes(compile_once: Compiled) -> None:
    """A prompt of 8 tokens: of the last layer's output projection and MLP, the compiled pass computes one row."""
    model, forward = compile_once("bundled")
    config = model.module.config
    width, heads = config.hidden_size, config.num_attention_heads * model.facts.head_dim
    flops = {}
    for compiled_forward in (None, forward):
        model.compiled = compiled_forward
        try:
            _, records = run(model, EngineConfig(), [list(range(5, 13))])
        finally:
            model.compiled = None
        steps = [record for record in records if record.kind == "step"]
        flops[compiled_forward] = [step.work.flops for step in steps if step.work is not None]
    expected = 2 * 7 * (width * heads + 3 * width * config.intermediate_size)
    assert flops[None][0] - flops[forward][0] == expected and flops[None][1:] == flops[forward][1:] != []


def test_a_failed_compilation_leaves_the_eager_path(
    without_libraries: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no C++ compiler\nwas found")

    model = from_module(tiny_model("llama"))
    monkeypatch.setattr(torch._inductor, "compile", fails)
    with caplog.at_level(logging.WARNING, logger="engine"):
        compilation = compile_in_background(model)
        compilation.join(60)
    assert model.compiled is None and compilation.error == "RuntimeError: no C++ compiler was found"
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == ["in-memory was not compiled and is served eagerly: RuntimeError: no C++ compiler was found"]
    outputs, records = run(model, EngineConfig(block_size=4, num_blocks=16), [[5, 6, 7]])
    assert len(outputs[0]) == 6 and not any(record.timing.compiled for record in records)


def test_wrong_compiled_code_is_rejected(
    compile_once: Compiled, without_libraries: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The eager path continues to serve if the compiler's code is wrong, for one token or for several."""
    model, forward = compile_once("gemma2")
    for right, name in ((forward.one, "one"), (forward.many, "many")):
        louder: dict[str, Any] = {name: lambda *given, right=right: [right(*given)[0] * 1.01]}
        with pytest.raises(ModelError, match=r"else compiled than by itself: its logits differ by 0\.01\d* of"):
            check_compiled(model, dataclasses.replace(forward, **louder))
    broken = dataclasses.replace(forward, one=lambda *given: [forward.one(*given)[0] * float("nan")])
    monkeypatch.setattr(compiled, "CompiledForward", lambda *_: broken)
    monkeypatch.setattr(compiled, "_compile", lambda graph, _: graph)
    fresh = from_module(tiny_model("llama", num_hidden_layers=2))
    compilation = compile_in_background(fresh)
    compilation.join(60)
    assert fresh.compiled is None and "logits differ" in compilation.error


def test_a_kind_of_cache_that_compiled_code_differs_over_is_served_eagerly(
    compile_once: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A last bit of half precision can become a whole step of int4; every other kind of cache stays compiled."""
    model, forward = compile_once("gemma2")
    right = served_check.check_kv_cache_dtype

    def differs(of: Any, kind: str, compiled: Any = None) -> None:
        if kind == "int4" and compiled is not None:
            raise ModelError("its logits differ")
        right(of, kind, compiled)

    monkeypatch.setattr(served_check, "check_kv_cache_dtype", differs)
    found = dataclasses.replace(forward, refused={})
    check_compiled(model, found)
    assert [*found.refused] == ["int4"]
    monkeypatch.setattr(model, "compiled", found)
    for kind in ("auto", "int8", "int4"):
        config = EngineConfig(block_size=4, num_blocks=16, kv_cache_dtype=kind)
        _, records = run(model, config, [[5, 6, 7]])
        assert {record.timing.compiled for record in records if record.kind == "step"} == {kind != "int4"}


def test_the_way_that_gpus_are_compiled_for(without_libraries: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels called from Python, without C functions, give the same logits on the CPU.

    One layer: each kernel is compiled by itself, in seconds, and those of further layers are the same way again.
    """
    monkeypatch.setitem(compiled.OPTIONS, "cpu", compiled.OPTIONS["cuda"])
    monkeypatch.setattr(compiled, "native_kernels", lambda: None)
    model = from_module(tiny_model("llama", num_hidden_layers=1))
    forward = compile_model(model)
    assert forward.backend is None
    (eager, _), (fast, _) = driven(model, None), driven(model, forward)
    for key, logits in fast.logits.items():
        assert (logits - eager.logits[key]).abs().max() <= TOLERANCE, key


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_on_a_gpu(family: str) -> None:
    model = from_module(tiny_model(family).to("cuda"))
    (eager, _), (fast, _) = driven(model, None), driven(model, compile_model(model))
    for key, logits in fast.logits.items():
        assert (logits - eager.logits[key]).abs().max() <= 1e-4, key


def test_while_it_is_traced_the_model_keeps_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracing replaces parameters by fake tensors in the traced module, while another thread may serve from ours. Each
    layer of both graphs calls the attention once.
    """
    model = from_module(tiny_model("llama"))
    calls: list[bool] = []

    class Watched(compiled._GraphContext):
        def attend(self, call: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            tensors = [*model.module.parameters(), *model.module.buffers()]
            calls.append(any(isinstance(tensor, FakeTensor) for tensor in tensors))
            return super().attend(call, q, k, v)

    monkeypatch.setattr(compiled, "_GraphContext", Watched)
    compiled._export(model, [compiled.ONE, compiled.MANY])
    assert len(calls) >= 2 * model.facts.num_layers and not any(calls)


def test_other_threads_have_the_interpreter_while_a_graph_runs(compile_once: Compiled) -> None:
    """A thread that needs the interpreter gets it during a graph run, even if attention does not release it."""
    model, forward = compile_once("bundled")
    assert isinstance(forward.many, CompiledGraph)
    count = 256
    out = torch.zeros(count, model.facts.num_heads, model.facts.head_dim)
    inputs = [torch.ones((1, count), dtype=torch.long), torch.arange(count)[None], torch.arange(2)]
    turns, ended, meanwhile, interval = [0], threading.Event(), 0, sys.getswitchinterval()

    def other() -> None:
        while not ended.is_set():
            turns[0] += 1
            time.sleep(0)  # lets it go

    thread = threading.Thread(target=other)
    with torch.inference_mode(), attending(SimpleNamespace(recorder=None, attend=lambda *_: out)):  # type: ignore[arg-type]
        forward.many(*inputs)
        thread.start()
        sys.setswitchinterval(60)
        try:
            for _ in range(20):
                before = turns[0]
                forward.many._run(inputs)
                meanwhile += turns[0] - before
        finally:
            sys.setswitchinterval(interval)
            ended.set()
            thread.join()
    assert meanwhile > 20 * 50, "it is let go at each attention, not more"


def test_two_models_that_are_compiled_at_once_are_both_compiled() -> None:
    """Tracing has process-wide state: concurrent traces used to break each other."""
    models = [from_module(tiny_model("llama", seed=seed, num_hidden_layers=1)) for seed in (1, 2)]
    under_way = [compile_in_background(model) for model in models]
    for one in under_way:
        one.join()
    assert [one.error for one in under_way] == ["", ""]
    assert all(model.compiled is not None for model in models)


def test_a_compiled_model_without_references_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "forward_key", lambda *_: None)  # it is traced here, not found in the cache
    model = from_module(tiny_model("llama", seed=3, num_hidden_layers=1))
    compile_in_background(model).join()
    assert model.compiled is not None
    with Engine(model, EngineConfig(block_size=4, num_blocks=16)) as engine:
        engine.add_request([1, 2, 3], SamplingParams(max_tokens=2, ignore_eos=True))
        while engine.has_unfinished():
            engine.step()
    weight = weakref.ref(next(model.module.parameters()))
    del model, engine
    gc.collect()
    assert weight() is None
