"""Clusters of instances on this thread, with checks of their logs."""

from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from engine.cluster.build import local_cluster
from engine.cluster.cluster import Cluster
from engine.cluster.local import LocalInstance
from engine.config import EngineConfig, SamplingParams
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.requests.request_spec import RequestSpec
from engine.trace.state import State, held_blocks, memory_figures

GREEDY = SamplingParams(max_tokens=9, ignore_eos=True)


class Shape(NamedTuple):
    """Number of instances of each role."""

    prefill: int = 0
    decode: int = 0
    mixed: int = 0


APART = Shape(prefill=1, decode=1)


def cluster_of(model: LoadedModel, config: EngineConfig, shape: Shape = APART, **more: Any) -> Cluster:
    routed = replace(config, routing_policy="round_robin", **shape._asdict())
    return local_cluster(model, routed, **more)


def run(cluster: Cluster, most: int = 1000) -> None:
    """Step until no request is left, checking the cluster after every step."""
    for _ in range(most):
        if not cluster.num_unfinished:
            return
        cluster.step()
        check_state(cluster)
    raise AssertionError(f"{cluster.num_unfinished} requests are unfinished after {most} steps")


def check_state(cluster: Cluster) -> None:
    """Check that the log's state equals each instance's live pool."""
    state = cluster.log.state_now()
    for index, one in enumerate(cluster.instances):
        assert isinstance(one, LocalInstance)
        one.engine.check_integrity()
        now = one.engine.snapshot()
        ids = {i for i, sequence in state.sequences.items() if sequence.instance == index}
        groups = state.own_groups[index]
        blocks = [block for block in state.blocks if _belongs_to(state, block.block_id, index)]
        assert now.ref_counts == [block.ref_count for block in blocks]
        assert now.block_hashes == [block.block_hash for block in blocks]
        assert now.free_queues == [state.free_queues[group] for group in groups]
        assert now.waiting == [i for i in state.waiting if i in ids]
        assert now.running == [i for i in state.running if i in ids]
        assert now.receiving == [i for i in state.receiving if i in ids]
        assert now.holding == [i for i in state.holding if i in ids]
        tables = {
            i: [state.sequences[i].block_tables[g] for g in groups] for i in ids if held_blocks(state.sequences[i])
        }
        assert {i: t for i, t in now.block_tables.items() if any(t)} == tables
    assert cluster.log.record(len(cluster.log) - 1).memory == memory_figures(state)


def _belongs_to(state: State, block_id: int, index: int) -> bool:
    groups = [state.block_groups[group] for group in state.own_groups[index]]
    return any(group.first_block <= block_id < group.first_block + group.num_blocks for group in groups)


def outputs(cluster: Cluster) -> dict[str, list[int]]:
    """Return each request's output tokens, by its id."""
    sequences = cluster.log.state_now().sequences.values()
    return {s.request_id: s.token_ids[s.num_prompt_tokens :] for s in sequences if "/" not in s.request_id}


def ask(prompt: list[int], sampling: SamplingParams = GREEDY, **more: Any) -> RequestSpec:
    return RequestSpec(prompt, sampling, **more)


def log_of_everything(model: LoadedModel, path: Path, capture: CaptureRequest | None = None) -> None:
    """Log a run of several instances with transfers, hits, a failed transfer, and two lost instances that restart."""
    config = EngineConfig(block_size=4, num_blocks=40, attention_window=8, sliding_window_pattern=2)
    cluster = cluster_of(model, config, Shape(prefill=1, decode=1, mixed=1), log_path=path, capture=capture, lease=1.0)
    prompts = [[first + i for i in range(17)] for first in (10, 10, 40, 70)]
    cluster.submit([ask(prompt) for prompt in prompts])
    for _ in range(6):
        cluster.step()
    cluster.lose(1)
    cluster.submit([ask([90 + i for i in range(9)])])
    run(cluster)
    cluster.submit([ask([110 + i for i in range(9)])])
    cluster.step()  # computes the prompt, before any block is fetched
    cluster.lose(0)
    run(cluster)
    cluster.close()
