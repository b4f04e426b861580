"""Configurations of vLLM that cannot be recorded are refused with the cause before a run begins."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.observe.vllm_recorder import WatchError
from engine.observe.vllm_recorder.terms import refuse_unsupported


def configs(**changes: Any) -> tuple[Any, Any]:
    """Return vLLM's configuration and that of its cache, with the fields that are read."""
    parallel = SimpleNamespace(pipeline_parallel_size=1, data_parallel_size=1, decode_context_parallel_size=1)
    vllm = SimpleNamespace(
        parallel_config=parallel,
        scheduler_config=SimpleNamespace(async_scheduling=False),
        speculative_config=None,
        kv_transfer_config=None,
    )
    cache = SimpleNamespace(kv_cache_groups=[object()], num_blocks=100)
    for name, value in changes.items():
        owner = next(each for each in (parallel, vllm.scheduler_config, vllm, cache) if hasattr(each, name))
        setattr(owner, name, value)
    return vllm, cache


def test_usual_configurations_are_accepted() -> None:
    refuse_unsupported(*configs())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"async_scheduling": True}, "async_scheduling=True schedules a step before"),
        ({"kv_cache_groups": [object(), object()]}, "its 2 groups of layers share one block pool"),
        ({"kv_cache_groups": []}, "no KV cache"),
        ({"speculative_config": object()}, "speculative decoding"),
        ({"kv_transfer_config": object()}, "a KV connector"),
        ({"pipeline_parallel_size": 2}, "pipeline_parallel_size > 1"),
        ({"data_parallel_size": 2}, "data_parallel_size > 1"),
        ({"decode_context_parallel_size": 2}, "context parallelism"),
        ({"num_blocks": (1 << 18) + 2}, "more than 262,144 blocks"),
    ],
)
def test_unsupported_configurations_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(WatchError, match=f"this vLLM configuration cannot be recorded: .*{message}"):
        refuse_unsupported(*configs(**changes))
