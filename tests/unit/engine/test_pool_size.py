"""Size of the default pool for models of every size."""

import pytest
from msgspec.structs import replace

from engine.config import EngineConfig
from engine.setup.pool_size import default_num_blocks, slots_that_fit
from engine.setup.resolve import resolve, resolve_for
from engine.trace.records import ModelFacts

GIB = 1 << 30


def facts(params: float, layers: int, kv_heads: int, dim: int, context: int, dtype: str = "bfloat16") -> ModelFacts:
    return ModelFacts(
        name="model", architecture="LlamaForCausalLM", num_params=int(params), num_layers=layers, hidden_size=64,
        intermediate_size=64, num_heads=kv_heads, num_kv_heads=kv_heads, head_dim=dim, v_head_dim=dim, vocab_size=128,
        max_position=context, dtype=dtype, sliding_windows=[None] * layers,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "blocks"),
    [
        (facts(3e6, 4, 2, 32, 1024), 64),  # the bundled model: 1,024 / 16
        (facts(1e5, 3, 2, 8, 256, "float32"), 64),  # 16 blocks would hold the context; 64 is the minimum
        # 64 MiB / (30 · 3 · 128 numbers of 4 bytes) are 1,456 slots or 91 blocks; the context needs 128
        (facts(100e6, 30, 3, 64, 2048, "float32"), 91),
        # (1.5 GB of weights / 8) / (28 · 8 · 256 numbers of 2 bytes) are 1,634 slots
        (facts(750e6, 28, 8, 128, 40960), 102),
        (facts(8e9, 32, 8, 128, 131072), 256),  # a GiB would hold 512; at most 256 are drawn
        (facts(7e9, 32, 32, 128, 4096), 128),  # 2,048 slots of half a MiB in a GiB
        (facts(175e9, 96, 96, 128, 2048), 16),  # 4.5 MiB per token are 14 blocks in a GiB; the minimum is 16
    ],
)
def test_the_default_pool_is_bounded_by_context_memory_and_the_drawable_size(model: ModelFacts, blocks: int) -> None:
    found = resolve_for(EngineConfig(), model)
    assert found.num_blocks == found.config.num_blocks == blocks
    tokens = blocks * found.config.block_size
    assert tokens * model.num_layers * model.num_kv_heads * 2 * model.head_dim * 2 < 4 * GIB
    assert resolve_for(found.config, model) == found  # resolving is idempotent


def test_the_default_number_of_blocks_follows_block_size_and_max_model_len() -> None:
    assert default_num_blocks(4, 1024) == 256 and default_num_blocks(8, 1024) == 128
    assert default_num_blocks(16, 1 << 20) == 256 and default_num_blocks(1024, 1024) == 64
    assert [default_num_blocks(16, 1 << 20, slots) for slots in (1000, 9)] == [62, 16]
    assert resolve(EngineConfig(max_model_len=1536), 1 << 17).num_blocks == 96
    assert resolve(EngineConfig(), 1 << 17).num_blocks == 256


def test_a_smaller_cache_dtype_gives_a_larger_default_pool() -> None:
    model = facts(100e6, 30, 3, 64, 8192, "float32")
    # a vector of 64 numbers takes 256 bytes in float32, 66 in int8 with its scale
    assert slots_that_fit(model) == (64 << 20) // (30 * 3 * 2 * 256)
    assert slots_that_fit(model, "int8") == (64 << 20) // (30 * 3 * 2 * 66)
    assert resolve_for(EngineConfig(kv_cache_dtype="int8"), model).num_blocks == 256


def test_a_requested_number_of_blocks_is_used() -> None:
    model = facts(175e9, 96, 96, 128, 2048)
    assert resolve_for(EngineConfig(num_blocks=3), model).num_blocks == 3
    laid_out = resolve_for(replace(EngineConfig(), strategy="contiguous"), facts(3e6, 4, 2, 32, 1024))
    assert (laid_out.config.block_size, laid_out.num_blocks) == (1024, 1)  # 64 · 16 slots hold one sequence
