"""A simulated run makes a real run's decisions, has the times of the queueing formulas, and writes a valid log."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from engine.accounting.memory import stored_bytes_per_token
from engine.cluster.build import local_cluster
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.requests.request_spec import RequestSpec
from engine.simulate.cost import Fixed, Linear
from engine.simulate.outcome import LinkSpeed, SimulatedRequest
from engine.simulate.queues import Arrangement, Prefill, mean_ttft
from engine.simulate.simulation import Simulation
from engine.trace.check import check
from engine.trace.compare import compare
from engine.trace.log import TraceReader
from engine.trace.operations import Op
from tests.unit.engine.runs import tiny_llama


class Scripted:
    """Source of tokens from a real run."""

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


def _requests(vocab_size: int, seed: int = 3) -> list[SimulatedRequest]:
    draw = np.random.default_rng(seed)
    shared = draw.integers(0, vocab_size, 12).tolist()
    return [
        SimulatedRequest(
            [*shared[: 12 * (i % 2)], *draw.integers(0, vocab_size, int(draw.integers(3, 20))).tolist()], 10 + i
        )
        for i in range(8)
    ]


def _plain(op: Op) -> Op:
    """Return an operation without fields that only a model or a clock determines."""
    if op.__struct_config__.tag == "submit":
        return replace(op, prompt_token_bytes=[], sampling={})  # type: ignore[type-var]
    if op.__struct_config__.tag == "arrive":
        return replace(op, began=0.0, ended=0.0, link="")  # type: ignore[type-var]
    if op.__struct_config__.tag == "hold":
        return replace(op, lease=0.0)  # type: ignore[type-var]
    return op


@pytest.mark.parametrize("settings", CONFIGS.values(), ids=CONFIGS.keys())
def test_every_decision_is_that_of_the_engine(settings: dict[str, Any]) -> None:
    config = EngineConfig(**{"block_size": 4, "num_blocks": 96, "num_logprobs": 0, **settings})
    specs = _requests(tiny_llama().facts.vocab_size)
    with Engine(tiny_llama(), config) as engine:
        requests = engine.add_requests(
            [
                RequestSpec(spec.prompt, SamplingParams(max_tokens=spec.output_tokens, ignore_eos=True), f"request-{i}")
                for i, spec in enumerate(specs)
            ]
        )
        while engine.has_unfinished():
            engine.step()
        assert engine.log is not None
        real = [engine.log.record(i) for i in range(len(engine.log))]
        tokens = Scripted({request.request_id: list(request.sequence.token_ids) for request in requests})
    simulation = Simulation(tiny_llama().facts, config, Fixed(0.01), tokens=tokens)
    simulation.run(specs)
    assert simulation.log is not None
    simulated = [simulation.log.record(i) for i in range(len(simulation.log))]
    simulation.close()
    assert [record.kind for record in simulated] == [record.kind for record in real]
    for one, other in zip(simulated, real, strict=True):
        assert [_plain(op) for op in one.ops] == [_plain(op) for op in other.ops]
        assert one.batch == other.batch
        assert one.memory == other.memory
        assert one.work == other.work


@pytest.mark.parametrize("shape", [{"prefill": 1, "decode": 1}, {"prefill": 2, "decode": 1}, {"mixed": 2}], ids=str)
def test_the_log_of_a_simulated_cluster_is_valid(shape: dict[str, Any], tmp_path: Path) -> None:
    config = EngineConfig(block_size=4, num_blocks=96, routing_policy="least_loaded", **shape)
    specs = [spec._replace(at=0.004 * i) for i, spec in enumerate(_requests(tiny_llama().facts.vocab_size))]
    path = tmp_path / "run.kvtrace"
    cost = Linear([1, 64], [0.001, 0.004], 1e-5, 1e-7, 1e-7, "given")
    simulation = Simulation(tiny_llama().facts, config, cost, link=LinkSpeed(1e6, 0.001), log_path=path)
    outcome = simulation.run(specs)
    simulation.close()
    assert [len(one.token_ids) for one in outcome.requests] == [spec.output_tokens for spec in specs]
    assert not list(check(path))
    with TraceReader(path) as log:
        state = log.state_at(len(log) - 1)
        assert log.header.simulated is not None and log.header.simulated.cost == "given"
        assert not state.running and not state.waiting and not state.receiving and not state.holding
        assert (outcome.moved_bytes > 0) == ("prefill" in shape)


def test_transferred_bytes_are_those_of_a_real_cluster() -> None:
    config = EngineConfig(block_size=4, num_blocks=96, prefill=1, decode=1, routing_policy="round_robin")
    specs = _requests(tiny_llama().facts.vocab_size)
    cluster = local_cluster(tiny_llama(), config)
    greedy = SamplingParams(ignore_eos=True)
    cluster.submit(
        [
            RequestSpec(spec.prompt, replace(greedy, max_tokens=spec.output_tokens), f"request-{i}")
            for i, spec in enumerate(specs)
        ]
    )
    while cluster.num_unfinished:
        cluster.step()
    real = _transferred([cluster.log.record(i).ops for i in range(len(cluster.log))])
    cluster.close()
    simulation = Simulation(tiny_llama().facts, config, Fixed(0.01))
    simulation.run(specs)
    assert simulation.log is not None
    assert _transferred([simulation.log.record(i).ops for i in range(len(simulation.log))]) == real
    simulation.close()


def _transferred(records: list[list[Op]]) -> dict[str, int]:
    arrived = [op for ops in records for op in ops if op.__struct_config__.tag == "arrive"]
    return {op.transfer.split("#")[0]: op.num_bytes for op in arrived}  # type: ignore[union-attr]


@pytest.mark.parametrize(("shape", "nodes", "queues"), [
    ({"prefill": 2, "decode": 1}, None, True),  # one receiver of two senders
    ({"prefill": 1, "decode": 2}, None, True),  # one sender to two receivers
    ({"prefill": 2, "decode": 2}, None, False),
    ({"prefill": 2, "decode": 1}, [0, 1, 0], False),  # one of two senders is on the receiver's node
    ({"prefill": 2, "decode": 2}, [0, 0, 1, 1], True),  # both senders share a node, and both receivers
])  # fmt: skip
def test_each_instance_sends_and_receives_one_transfer_at_a_time(
    shape: dict[str, int], nodes: list[int] | None, queues: bool
) -> None:
    """Two prompts of 16 tokens arrive at once and are computed together. Each transfer takes 16 s."""
    config = EngineConfig(block_size=4, num_blocks=96, routing_policy="round_robin", **shape)  # type: ignore[arg-type]
    facts = tiny_llama().facts
    link = LinkSpeed(stored_bytes_per_token(facts))
    simulation = Simulation(facts, config, Fixed(0.001), link=link, nodes=nodes)
    outcome = simulation.run([SimulatedRequest(list(range(300 + 20 * i, 317 + 20 * i)), 2) for i in range(2)])
    simulation.close()
    assert outcome.moved_bytes == 2 * 16 * stored_bytes_per_token(facts)
    assert (outcome.seconds > 32) == queues and outcome.seconds > 16


def test_each_kind_of_instance_has_its_own_settings(tmp_path: Path) -> None:
    """Blocks are numbered over pools of different sizes. Sequences above an instance's `max_num_seqs` wait."""
    config = EngineConfig(block_size=4, num_blocks=96, prefill=1, decode=2)
    small = EngineConfig(block_size=4, num_blocks=24, max_num_seqs=1)
    specs = _requests(tiny_llama().facts.vocab_size)
    path = tmp_path / "run.kvtrace"
    simulation = Simulation(tiny_llama().facts, config, Fixed(0.01), settings={"prefill": small}, log_path=path)
    simulation.run(specs)
    simulation.close()
    assert not list(check(path))
    with TraceReader(path) as log:
        assert [(group.first_block, group.num_blocks) for group in log.header.block_groups] == [
            (0, 24), (24, 96), (120, 96)
        ]  # fmt: skip
        prefills = [len(record.batch) for i in range(len(log)) if (record := log.record(i)).instance == 0]
        assert max(prefills) == 1


def test_two_simulated_logs_can_be_compared(tmp_path: Path) -> None:
    """Equal requests and settings give equal logs. Without prefix caching the first lookup differs."""
    specs = [SimulatedRequest(list(range(300, 320)), 4), SimulatedRequest(list(range(300, 320)), 4, after=0)]
    config = EngineConfig(block_size=4, num_blocks=64)
    paths = [tmp_path / f"{name}.kvtrace" for name in "abc"]
    for path, settings in zip(paths, (config, config, replace(config, enable_prefix_caching=False)), strict=True):
        simulation = Simulation(tiny_llama().facts, settings, Fixed(0.01), log_path=path)
        simulation.run(specs)
        simulation.close()
    with TraceReader(paths[0]) as a, TraceReader(paths[1]) as b, TraceReader(paths[2]) as c:
        assert compare(a, b).first_op is None
        found = compare(a, c)
        assert found.first_op is not None and [one.name for one in found.settings] == ["enable_prefix_caching"]


def test_a_turn_continues_the_previous_answer() -> None:
    specs = [SimulatedRequest(list(range(300, 320)), 4), SimulatedRequest(list(range(400, 408)), 4, after=0)]
    simulation = Simulation(tiny_llama().facts, EngineConfig(block_size=4, num_blocks=64), Fixed(0.5))
    first, second = simulation.run(specs).requests
    simulation.close()
    assert second.prompt == [*first.prompt, *first.token_ids, *specs[1].prompt]
    assert first.tokens == [0.5, 1.0, 1.5, 2.0]
    assert second.arrived == 2.0 and second.ttft == 0.5


@pytest.mark.parametrize("utilisation", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("arrangement", ["one", "inter", "intra"])
def test_mean_ttft_agrees_with_the_queueing_formulas(arrangement: Arrangement, utilisation: float) -> None:
    """The page's formula (DistServe, arXiv 2401.09670, 3.1) is within the 95 % interval over 20 seeds: on one GPU, on
    two stages, and on two GPUs that split layers. The load is relative to the arrangement's maximum.
    """
    service, speedup = 0.1, 1.5
    prefill = Prefill(service=service, gpus=2, speedup=speedup)
    rate = utilisation * prefill.max_load(arrangement) / service
    stages = 2 if arrangement == "inter" else 1
    config = EngineConfig(block_size=16, num_blocks=64, max_num_seqs=1, enable_prefix_caching=False)
    if stages > 1:
        config = replace(config, mixed=stages, routing_policy="round_robin")
    cost = Fixed(service / speedup if arrangement == "intra" else service)
    number = 400 if stages > 1 and utilisation < 0.8 else 800  # fewer for several instances, which always write a log
    means = []
    for seed in range(20):
        draw = np.random.default_rng([seed, 11])
        at = np.cumsum(draw.exponential(1 / rate, number))
        specs = [SimulatedRequest([300 + i % 7], 1, float(t)) for i, t in enumerate(at)]
        simulation = Simulation(tiny_llama().facts, config, cost, stages={"mixed": stages}, keep_log=False)
        requests = simulation.run(specs).requests
        simulation.close()
        means.append(np.mean([one.ttft or 0.0 for one in requests[100:]]))
    expected = mean_ttft(prefill, arrangement, rate).value
    half_width = 2.093 * np.std(means, ddof=1) / np.sqrt(20)  # Student's t with 19 degrees of freedom
    assert abs(np.mean(means) - expected) <= half_width
    assert half_width < 0.15 * expected


def test_a_pipeline_begins_a_step_before_the_previous_one_has_ended() -> None:
    """Within four stages, a step takes 4 s, and prompts that arrive at once finish 1 s apart after 4, 5, 6, 7 and 8 s.
    Prompts of another pipeline do not wait for them.
    """
    config = EngineConfig(
        block_size=16, num_blocks=64, max_num_seqs=1, enable_prefix_caching=False, mixed=8, routing_policy="round_robin"
    )
    simulation = Simulation(tiny_llama().facts, config, Fixed(4.0), stages={"mixed": 4})
    outcome = simulation.run([SimulatedRequest([300 + i], 1) for i in range(9)])
    simulation.close()
    assert [one.ttft for one in outcome.requests] == [4, 5, 6, 7, 4, 5, 6, 7, 8]
    with pytest.raises(ValueError, match="8 instances of mixed are not a multiple of the 3 stages of a pipeline"):
        Simulation(tiny_llama().facts, config, Fixed(4.0), stages={"mixed": 3})


def _sessions(seed: int) -> list[SimulatedRequest]:
    """Return requests of several sessions in mixed order. Some have a fixed time, and some have complete prompts."""
    draw = np.random.default_rng(seed)
    specs, last = list[SimulatedRequest](), dict[int, int]()
    for index in range(24):
        session = int(draw.integers(0, 6))
        prompt = draw.integers(0, 200, int(draw.integers(1, 12))).tolist()
        at, think = float(draw.integers(0, 3)) * 5, float(draw.integers(0, 3)) / 2
        after = last.get(session)
        is_whole = bool(draw.integers(0, 2)) and after is not None
        specs.append(SimulatedRequest(prompt, int(draw.integers(1, 5)), at, after, think, is_whole))
        last[session] = index
    return specs


@pytest.mark.parametrize("roles", [{}, {"mixed": 2}, {"prefill": 1, "decode": 1}], ids=["one", "two", "apart"])
@pytest.mark.parametrize("seed", range(8))
def test_a_request_of_a_session_begins_after_the_previous_answer_has_ended(roles: dict[str, Any], seed: int) -> None:
    specs = _sessions(seed)
    config = EngineConfig(block_size=4, num_blocks=256, max_num_seqs=3, **roles)
    simulation = Simulation(tiny_llama().facts, config, Fixed(0.3), keep_log=False)
    served = simulation.run(specs).requests
    simulation.close()
    for spec, one in zip(specs, served, strict=True):
        assert len(one.tokens) == spec.output_tokens and one.tokens[0] > one.arrived >= spec.at
        if spec.after is None:
            continue
        before = served[spec.after]
        assert one.arrived == max(spec.at, before.tokens[-1] + spec.think)
        earlier = [] if spec.is_whole else [*before.prompt, *before.token_ids]
        assert one.prompt == [*earlier, *spec.prompt]
