"""Memory of a GPU, simulated by an allocator: size of the pool, and errors without memory."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from app.ground.settings import ServerSettings
from app.models.live_engine import engine_builder
from app.models.live_model import LiveModel
from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model import device, loader
from engine.model.device import Allocator, DeviceMemory, OutOfMemory
from engine.model.errors import ModelError
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module, load_model
from engine.setup.device_pool import with_pool
from engine.setup.pool_size import MAX_DRAWN_BLOCKS, num_blocks_that_fit
from tests.tiny_models import tiny_model

MIB = 1 << 20
PER_TOKEN = 3 * 2 * (8 + 8) * 4  # layers * KV heads * (head_dim + v_head_dim) * bytes of float32
CUDA = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.1 GiB of which 1 GiB is free."
CPU = "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: not enough memory: you tried to allocate 4096 bytes."


class Gpu(Allocator):
    """GPU of `total` bytes whose steps have a peak of `taken` bytes."""

    def __init__(self, free: int, total: int, taken: int) -> None:
        self.free, self.total, self.taken = free, total, taken
        self.measured = 0

    def has_own_memory(self, _: torch.device) -> bool:
        return True

    def memory(self, _: torch.device) -> DeviceMemory:
        return DeviceMemory(self.free, self.total)

    def peak(self, _: torch.device, work: Callable[[], object]) -> int:
        work()
        self.measured += 1
        return self.taken


@pytest.fixture
def model() -> LoadedModel:
    return from_module(tiny_model("llama"))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    found = Gpu(free=60 * MIB, total=100 * MIB, taken=20 * MIB)
    monkeypatch.setattr(device, "ALLOCATOR", found)
    return found


def test_the_pool_gets_the_memory_share_minus_used_memory_and_a_steps_peak(model: LoadedModel, gpu: Gpu) -> None:
    """0.9 · 100 − 40 used − 20 at the peak of a step = 30 MiB, in blocks of 4 tokens."""
    found = with_pool(EngineConfig(block_size=4), model)
    assert found.num_blocks == 30 * MIB // (4 * PER_TOKEN) and gpu.measured == 1
    assert with_pool(EngineConfig(block_size=4, gpu_memory_utilization=0.7), model).num_blocks == 10 * MIB // (
        4 * PER_TOKEN
    )


@given(
    st.integers(1 << 20, 1 << 40), st.floats(0, 1), st.floats(0.01, 1), st.integers(0, 1 << 38), st.integers(1, 1 << 24)
)
def test_the_pool_is_the_largest_that_fits_the_memory_share(
    total: int, free_share: float, utilization: float, peak: int, block_bytes: int
) -> None:
    taken = total - int(free_share * total)
    count = num_blocks_that_fit(total - taken, total, utilization, peak, block_bytes)
    if count:
        assert taken + peak + count * block_bytes <= int(utilization * total)
    assert taken + peak + (count + 1) * block_bytes > int(utilization * total)


def test_requested_pool_sizes_and_cpus_are_not_measured(model: LoadedModel, gpu: Gpu) -> None:
    chosen = EngineConfig(num_blocks=7)
    assert with_pool(chosen, model) is chosen and gpu.measured == 0
    device.ALLOCATOR = Allocator()
    default = EngineConfig()
    assert with_pool(default, model) is default


def test_an_engine_logs_its_computed_pool_size(model: LoadedModel, gpu: Gpu) -> None:
    with Engine(model, EngineConfig(block_size=4)) as engine:
        expected = 30 * MIB // (4 * PER_TOKEN)
        assert engine.config.num_blocks == expected
        header = engine.header().engine
        assert header["num_blocks"] == expected and "gpu_memory_utilization" not in header


def test_a_memory_share_without_room_is_refused_with_the_sizes(model: LoadedModel, gpu: Gpu) -> None:
    gpu.taken = 50 * MIB
    with pytest.raises(ConfigError, match=r"0\.9 of 100 MiB.*data take 40 MiB.*a step takes 50 MiB") as refused:
        with_pool(EngineConfig(), model)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("error", "requested"),
    [(torch.OutOfMemoryError(CUDA), "2.5 GiB"), (RuntimeError(CPU), "0 MiB"), (MemoryError(), None)],
)
def test_a_failed_allocation_is_one_sentence_with_sizes(gpu: Gpu, error: Exception, requested: str | None) -> None:
    found = device.out_of_memory(error, torch.device("cpu"), "the step", "use less")
    assert found is not None
    text = str(found)
    assert "60 MiB of 100 MiB are free; use less" in text and "\n" not in text
    assert (f"{requested} more were requested" in text) is (requested is not None)


def test_other_errors_are_not_out_of_memory(gpu: Gpu) -> None:
    assert device.out_of_memory(RuntimeError("shape mismatch"), torch.device("cpu"), "the step", "") is None


def test_a_step_out_of_memory_fails_and_the_engine_continues(
    model: LoadedModel, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = SamplingParams(max_tokens=3, ignore_eos=True)
    with Engine(model, EngineConfig(num_blocks=8)) as engine:
        engine.add_request([5, 6, 7], sampling)
        execute = engine._runner.execute

        def fails(*_: Any) -> Any:
            raise torch.OutOfMemoryError(CUDA)

        monkeypatch.setattr(engine._runner, "execute", fails)
        with pytest.raises(OutOfMemory, match=r"the step needs more memory than cpu has: 2\.5 GiB more"):
            engine.step()
        monkeypatch.setattr(engine._runner, "execute", execute)
        engine.check_integrity()
        request = engine.add_request([5, 6, 7], sampling)
        while engine.has_unfinished():
            engine.step()
        assert len(request.outputs[0].output_token_ids) == 3


def test_loading_without_memory_is_one_sentence(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError(CUDA)

    monkeypatch.setattr(loader, "from_module", fails)
    with pytest.raises(
        ModelError, match=r"'bundled' needs more memory than cpu has: 2\.5 GiB more.*use a smaller model"
    ):
        load_model("bundled", device="cpu")


def test_only_api_runs_exceed_the_drawable_pool(model: LoadedModel, gpu: Gpu) -> None:
    """Several runs share a GPU, and only the run with the server's own settings gets the remaining memory."""
    engine = engine_builder(model, 64 * MIB)(EngineConfig(block_size=4), None)
    assert (engine.config.num_blocks or 0) <= MAX_DRAWN_BLOCKS
    engine.close()
    live = LiveModel(model, False, ServerSettings(max_pool_bytes=MIB))
    sized = live.with_pool(EngineConfig(block_size=4))
    assert (sized.num_blocks or 0) > MAX_DRAWN_BLOCKS
    engine = live.build(sized, None)
    assert engine.config.num_blocks == sized.num_blocks
    pools = engine._engine._runner.kv_store.pools([0, 1, 2])  # type: ignore[attr-defined]
    assert all(pool.untyped_storage().nbytes() for pool in pools)
    engine.release()
    assert not any(pool.untyped_storage().nbytes() for pool in pools)
    engine.close()
