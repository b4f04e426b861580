"""A simulated run decides what a real one decides, takes what the formulas of queues say, and writes a sound log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from engine.accounting.memory import stored_bytes_per_token
from engine.cluster.build import local_cluster
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.request_spec import RequestSpec
from engine.simulate.cost import Fixed, Linear
from engine.simulate.simulation import LinkSpeed, Simulation
from engine.trace.check import check
from engine.trace.events import Op
from engine.trace.log import TraceReader
from tests.unit.engine.runs import tiny_llama
from tests.unit.simulate.asks import Ask


class Said:
    """Tokens of a real run."""

    def __init__(self, outputs: dict[str, list[int]]) -> None:
        self._outputs = outputs

    def at(self, request_id: str, position: int) -> int:
        return self._outputs[request_id][position]


CONFIGS = {
    "roomy": {},
    "preempting": {"num_blocks": 14, "max_model_len": 48},
    "swapping": {"num_blocks": 14, "max_model_len": 48, "preemption_mode": "swap"},
    "in chunks": {"max_num_batched_tokens": 16},
    "two at a time": {"max_num_seqs": 2},
    "first fit": {"strategy": "first_fit", "num_blocks": 32, "max_model_len": 64},
    "no cache": {"strategy": "none", "max_model_len": 64},
    "no prefixes": {"enable_prefix_caching": False},
    "window": {"attention_window": 8, "attention_sinks": 4},
}


def _asks(vocab_size: int, seed: int = 3) -> list[Ask]:
    draw = np.random.default_rng(seed)
    shared = draw.integers(0, vocab_size, 12).tolist()
    return [
        Ask([*shared[: 12 * (i % 2)], *draw.integers(0, vocab_size, int(draw.integers(3, 20))).tolist()], 10 + i)
        for i in range(8)
    ]


def _plain(op: Op) -> Op:
    """Without what only a model knows, or a clock."""
    if op.__struct_config__.tag == "submit":
        return replace(op, prompt_token_bytes=[], sampling={})  # type: ignore[type-var]
    if op.__struct_config__.tag == "arrive":
        return replace(op, began=0.0, ended=0.0, link="")  # type: ignore[type-var]
    if op.__struct_config__.tag == "hold":
        return replace(op, lease=0.0)  # type: ignore[type-var]
    return op


@pytest.mark.parametrize("settings", CONFIGS.values(), ids=CONFIGS.keys())
def test_every_decision_is_the_engines(settings: dict[str, Any]) -> None:
    config = EngineConfig(**{"block_size": 4, "num_blocks": 96, "num_logprobs": 0, **settings})
    asks = _asks(tiny_llama().facts.vocab_size)
    with Engine(tiny_llama(), config) as engine:
        requests = engine.add_requests(
            [
                RequestSpec(ask.prompt, SamplingParams(max_tokens=ask.output_tokens, ignore_eos=True), f"request-{i}")
                for i, ask in enumerate(asks)
            ]
        )
        while engine.has_unfinished():
            engine.step()
        assert engine.log is not None
        real = [engine.log.record(i) for i in range(len(engine.log))]
        said = Said({request.request_id: list(request.sequence.token_ids) for request in requests})
    simulation = Simulation(tiny_llama().facts, config, Fixed(0.01), tokens=said)
    simulation.run(asks)
    assert simulation.log is not None
    reckoned = [simulation.log.record(i) for i in range(len(simulation.log))]
    simulation.close()
    assert [record.kind for record in reckoned] == [record.kind for record in real]
    for one, other in zip(reckoned, real, strict=True):
        assert [_plain(op) for op in one.ops] == [_plain(op) for op in other.ops]
        assert one.batch == other.batch
        assert one.memory == other.memory
        assert one.work == other.work


@pytest.mark.parametrize("shape", [{"prefill": 1, "decode": 1}, {"prefill": 2, "decode": 1}, {"mixed": 2}], ids=str)
def test_a_simulated_clusters_log_is_sound(shape: dict[str, Any], tmp_path: Path) -> None:
    config = EngineConfig(block_size=4, num_blocks=96, routing_policy="least_loaded", **shape)
    asks = [ask._replace(at=0.004 * i) for i, ask in enumerate(_asks(tiny_llama().facts.vocab_size))]
    path = tmp_path / "run.kvtrace"
    cost = Linear([1, 64], [0.001, 0.004], 1e-5, 1e-7, 1e-7, "given")
    simulation = Simulation(tiny_llama().facts, config, cost, link=LinkSpeed(1e6, 0.001), log_path=path)
    outcome = simulation.run(asks)
    simulation.close()
    assert [len(one.token_ids) for one in outcome.requests] == [ask.output_tokens for ask in asks]
    assert not list(check(path))
    with TraceReader(path) as log:
        state = log.state_at(len(log) - 1)
        assert log.header.simulated is not None and log.header.simulated.cost == "given"
        assert not state.running and not state.waiting and not state.receiving and not state.holding
        assert (outcome.moved_bytes > 0) == ("prefill" in shape)


def test_blocks_that_move_are_those_of_a_real_cluster() -> None:
    config = EngineConfig(block_size=4, num_blocks=96, prefill=1, decode=1, routing_policy="round_robin")
    asks = _asks(tiny_llama().facts.vocab_size)
    cluster = local_cluster(tiny_llama(), config)
    greedy = SamplingParams(ignore_eos=True)
    cluster.submit(
        [
            RequestSpec(ask.prompt, replace(greedy, max_tokens=ask.output_tokens), f"request-{i}")
            for i, ask in enumerate(asks)
        ]
    )
    while cluster.num_unfinished:
        cluster.step()
    real = _moved([cluster.log.record(i).ops for i in range(len(cluster.log))])
    cluster.close()
    simulation = Simulation(tiny_llama().facts, config, Fixed(0.01))
    simulation.run(asks)
    assert simulation.log is not None
    assert _moved([simulation.log.record(i).ops for i in range(len(simulation.log))]) == real
    simulation.close()


def _moved(records: list[list[Op]]) -> dict[str, int]:
    arrived = [op for ops in records for op in ops if op.__struct_config__.tag == "arrive"]
    return {op.transfer.split("#")[0]: op.num_bytes for op in arrived}  # type: ignore[union-attr]


@pytest.mark.parametrize(("shape", "nodes", "queues"), [
    ({"prefill": 2, "decode": 1}, None, True),  # one takes in what two send
    ({"prefill": 1, "decode": 2}, None, True),  # one sends what two take in
    ({"prefill": 2, "decode": 2}, None, False),
    ({"prefill": 2, "decode": 1}, [0, 1, 0], False),  # one of the two is where it is wanted
    ({"prefill": 2, "decode": 2}, [0, 0, 1, 1], True),  # both ends are shared
])  # fmt: skip
def test_a_network_carries_one_thing_at_a_time_at_either_end(
    shape: dict[str, int], nodes: list[int] | None, queues: bool
) -> None:
    """Two prompts of 16 tokens come at once and are computed together; what moves of each takes 16 s."""
    config = EngineConfig(block_size=4, num_blocks=96, routing_policy="round_robin", **shape)  # type: ignore[arg-type]
    facts = tiny_llama().facts
    link = LinkSpeed(stored_bytes_per_token(facts))
    simulation = Simulation(facts, config, Fixed(0.001), link=link, nodes=nodes)
    outcome = simulation.run([Ask(list(range(300 + 20 * i, 317 + 20 * i)), 2) for i in range(2)])
    simulation.close()
    assert outcome.moved_bytes == 2 * 16 * stored_bytes_per_token(facts)
    assert (outcome.seconds > 32) == queues and outcome.seconds > 16


def test_each_kind_of_instance_has_its_own_settings(tmp_path: Path) -> None:
    """Blocks run on over pools of unlike size, and what holds fewer sequences lets them wait."""
    config = EngineConfig(block_size=4, num_blocks=96, prefill=1, decode=2)
    few = EngineConfig(block_size=4, num_blocks=24, max_num_seqs=1)
    asks = _asks(tiny_llama().facts.vocab_size)
    path = tmp_path / "run.kvtrace"
    simulation = Simulation(tiny_llama().facts, config, Fixed(0.01), settings={"prefill": few}, log_path=path)
    simulation.run(asks)
    simulation.close()
    assert not list(check(path))
    with TraceReader(path) as log:
        assert [(group.first_block, group.num_blocks) for group in log.header.block_groups] == [
            (0, 24), (24, 96), (120, 96)
        ]  # fmt: skip
        prefills = [len(record.batch) for i in range(len(log)) if (record := log.record(i)).instance == 0]
        assert max(prefills) == 1


def test_a_turn_goes_on_from_what_was_answered() -> None:
    asks = [Ask(list(range(300, 320)), 4), Ask(list(range(400, 408)), 4, after=0)]
    simulation = Simulation(tiny_llama().facts, EngineConfig(block_size=4, num_blocks=64), Fixed(0.5))
    first, second = simulation.run(asks).requests
    simulation.close()
    assert second.prompt == [*first.prompt, *first.token_ids, *asks[1].prompt]
    assert first.tokens == [0.5, 1.0, 1.5, 2.0]
    assert second.arrived == 2.0 and second.ttft == 0.5


@pytest.mark.parametrize("utilisation", [0.2, 0.5, 0.8])
def test_one_server_with_equal_times_is_m_d_1(utilisation: float) -> None:
    """TTFT = D + R·D² / (2 (1 - R·D)): within the 95 % interval over 20 seeds (DistServe, arXiv 2401.09670, 3.1)."""
    service = 0.1
    rate = utilisation / service
    config = EngineConfig(block_size=16, num_blocks=64, max_num_seqs=1, enable_prefix_caching=False)
    means = []
    for seed in range(20):
        draw = np.random.default_rng([seed, 11])
        at = np.cumsum(draw.exponential(1 / rate, 1200))
        asks = [Ask([300 + i % 7], 1, float(t)) for i, t in enumerate(at)]
        simulation = Simulation(tiny_llama().facts, config, Fixed(service), keep_log=False)
        requests = simulation.run(asks).requests
        means.append(np.mean([one.ttft for one in requests[200:]]))
    expected = service + rate * service**2 / (2 * (1 - utilisation))
    half = 2.093 * np.std(means, ddof=1) / np.sqrt(20)  # Student's t with 19 degrees of freedom
    assert abs(np.mean(means) - expected) <= half
    assert half < 0.15 * expected
