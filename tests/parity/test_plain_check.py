"""Models that compute something else in a batch than alone are refused: each test plants such a mistake."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.cache.kv_store import KVStore
from engine.config import EngineConfig
from engine.engine import Engine
from engine.model.attention import AttentionRefused, ProbeContext, attending, paged_attention
from engine.model.errors import ModelError
from engine.model.loader import from_module
from engine.model.plain_check import LENGTHS, STEPS, TABLES, compare_logits, plain_logits
from engine.model.served_check import KINDS, check_kv_cache_dtype
from tests.tiny_models import tiny_model


class InCompany(nn.Module):
    """A layer's product, plus a share of the mean over all tokens of the row, as an expert's capacity would add."""

    def __init__(self, inner: nn.Module, share: float) -> None:
        super().__init__()
        self.inner, self.share = inner, share

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x)
        return out + self.share * out.mean(dim=1, keepdim=True)


class ByPlace(nn.Module):
    """Product that is larger from the second token of a row on: counted, without position ids."""

    def __init__(self, inner: nn.Module, slope: float, index_experts: bool) -> None:
        super().__init__()
        self.inner, self.slope, self.index_experts = inner, slope, index_experts

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x)
        place = torch.arange(x.shape[1])
        if self.index_experts:  # a selection by place is nothing of a place in what is selected
            return out[:, place.flip(0).flip(0)]
        return out * (1 + self.slope * torch.floor(place.float() / 8192))[None, :, None]


def swapped(path: str, make: Callable[[nn.Module], nn.Module], family: str = "llama") -> Any:
    """Return a small model with one of its parts replaced."""
    module = tiny_model(family)
    parent, _, name = path.rpartition(".")
    setattr(module.get_submodule(parent), name, make(module.get_submodule(path)))
    return module


def test_the_test_schedule_covers_its_cases() -> None:
    """The schedule has every token once and in order, two chunks of one sequence beside a third one, and separate
    scattered blocks.
    """
    seen: list[list[int]] = [[] for _ in LENGTHS]
    for step in STEPS:
        for index, first, count in step:
            seen[index] += range(first, first + count)
    assert seen == [list(range(length)) for length in LENGTHS]
    assert {index for index, *_ in STEPS[1]} == {0, 1, 2} and len(STEPS[-1]) == 1
    blocks = [block for table in TABLES for block in table]
    assert sorted(blocks) == list(range(len(blocks))) and blocks != sorted(blocks)


def test_the_check_of_a_healthy_model_reports_its_distance() -> None:
    model = from_module(tiny_model("llama"))
    assert 0 <= model.differences["auto"].share < 1e-5
    assert model.check_seconds > 0


@pytest.mark.parametrize("share", [0.01, 1.0])
def test_results_that_depend_on_the_batch_are_refused(share: float) -> None:
    """A product that mixes in 1 % of the row's mean in one layer is refused."""
    module = swapped("model.layers.2.mlp.down_proj", lambda inner: InCompany(inner, share))
    with pytest.raises(ModelError, match=r"packed over a paged KV cache than by itself: its logits differ"):
        from_module(module)


def test_results_that_depend_on_the_batch_position_are_refused() -> None:
    module = swapped("model.layers.1.self_attn.k_proj", lambda inner: ByPlace(inner, 0.1, False))
    with pytest.raises(ModelError, match=r"uses a token's place in the packed row .*\(layer 1\)"):
        from_module(module)
    from_module(swapped("model.layers.1.self_attn.k_proj", lambda inner: ByPlace(inner, 0.1, True)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_has_room_for_rounding_and_for_no_more(dtype: torch.dtype) -> None:
    for family in ("llama", "gemma2", "qwen3_moe"):
        model = from_module(tiny_model(family, dtype=dtype))
        assert model.differences["auto"].share < model.differences["auto"].tolerance
    module = swapped("model.layers.1.mlp.down_proj", lambda inner: InCompany(inner, 1.0)).to(dtype)
    with pytest.raises(ModelError, match="its logits differ by"):
        from_module(module)


def test_a_model_that_gives_no_numbers_is_refused() -> None:
    module = tiny_model("llama")
    module.lm_head.weight.data[3] = float("nan")
    with pytest.raises(ModelError, match="its logits differ by nan"):
        from_module(module)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_cache_is_checked_once_and_before_it_serves(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, fresh = from_module(tiny_model("llama")), from_module(tiny_model("llama"))
    check_kv_cache_dtype(model, kind)
    assert model.differences[kind].share < 1e-3
    # every decoding head reads its neighbour's keys; the reference reads slots, one at a time
    right = KVStore.gather_heads
    monkeypatch.setattr(KVStore, "gather_heads", lambda self, layer, rows: right(self, layer, rows.roll(1)))
    check_kv_cache_dtype(model, kind)  # the verdict is cached
    with pytest.raises(ModelError, match=f"over a cache of {kind} than by the formula over that cache"):
        check_kv_cache_dtype(fresh, kind)


def test_an_engine_asks_for_its_kind_of_cache() -> None:
    model = from_module(tiny_model("llama"))
    with Engine(model, EngineConfig(kv_cache_dtype="int8", num_blocks=8)):
        assert set(model.differences) == {"auto", "int8"}


@pytest.mark.parametrize(
    ("keywords", "reason"),
    [
        ({"attention_mask": torch.zeros(1, 1, 3, 3)}, "uses its own attention mask"),
        ({"is_causal": False}, "attends to later tokens"),
        ({"position_bias": torch.zeros(3)}, "passes position_bias"),
        ({"alibi": 0.5}, "passes alibi to its attention"),
    ],
)
def test_attention_refuses_unknown_arguments(keywords: dict[str, Any], reason: str) -> None:
    layer = nn.Module()
    layer.layer_idx = 0  # type: ignore[assignment]
    q, k = torch.zeros(1, 4, 3, 8), torch.zeros(1, 2, 3, 8)
    harmless = {"position_ids": torch.zeros(1, 3), "use_cache": False, "output_attentions": None}
    with attending(ProbeContext()):
        assert paged_attention(layer, q, k, k, **harmless)[0].shape == (1, 3, 4, 8)  # type: ignore[arg-type]
        with pytest.raises(AttentionRefused, match=reason):
            paged_attention(layer, q, k, k, **{**harmless, **keywords})


def test_the_check_compares_centred_rows() -> None:
    """Rows have spread 5 (3-4-5 triangle without the mean); one logit is off by a tenth: 0.1 / 5."""
    wanted = torch.tensor([[3.0, -3.0, 4.0, -4.0], [3.0, -3.0, 4.0, -4.0], [3.0, -3.0, 4.0, -4.0]]) / 2**0.5
    off = wanted.clone()
    off[1, 2] += 0.1
    assert compare_logits([off + 0.0], [wanted], torch.float32).share == pytest.approx(0.02)
    assert compare_logits([off], [wanted], torch.bfloat16).share == 0, "two of three rows are the same"
    assert not compare_logits([wanted * float("nan")], [wanted], torch.float32).is_rounding


def test_special_tokens_of_a_configuration_are_not_drawn() -> None:
    module = tiny_model("llama")
    module.config.image_token_id = 7
    named = {0, 1, 2, 7}
    assert not named & {i for ids in plain_logits(module).token_ids for i in ids}
