"""Injected faults of the museum's exhibits."""

from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from msgspec.structs import replace

from engine.config import ConfigError, EngineConfig, FaultName, SamplingParams
from engine.engine import Engine
from engine.lab.faults import FAULTS, OF_SEVERAL, make_cluster, make_engine
from engine.model.capture import CaptureRequest
from engine.requests.request_spec import RequestSpec
from engine.setup.resolve import resolve
from engine.trace.check import check
from engine.trace.operations import Finish
from engine.trace.records import StepRecord
from tests.unit.engine.runs import GREEDY, PROMPTS, log_of, tiny_llama


class Outcome(NamedTuple):
    """Complete run."""

    records: list[StepRecord]
    outputs: list[list[int]]  # token ids by sequence, from the log


def outcome(config: EngineConfig, groups: list[list[list[int]]], sampling: SamplingParams) -> Outcome:
    """Submit each group of prompts after the previous one has finished."""
    with make_engine(tiny_llama(), config, capture=CaptureRequest(dtype="float32")) as engine:
        for group in groups:
            for prompt in group:
                engine.add_request(prompt, sampling)
            while engine.has_unfinished():
                engine.step()
        log = log_of(engine)
        records = [log.record(index) for index in range(len(log))]
        tokens: dict[int, list[int]] = {}
        for record in records:
            for output in record.outputs:
                tokens.setdefault(output.seq_id, []).append(output.token_id)
        return Outcome(records, [tokens[seq_id] for seq_id in sorted(tokens)])


ROOMY = EngineConfig(block_size=4, num_blocks=64, max_model_len=64)


def test_every_fault_is_injectable() -> None:
    assert set(FAULTS) | set(OF_SEVERAL) == set(get_args(FaultName))


def test_without_a_fault_the_plain_engine_is_used() -> None:
    with make_engine(tiny_llama(), ROOMY, keep_log=False) as engine:
        assert type(engine) is Engine


@pytest.mark.parametrize("fault", FAULTS)
def test_logs_of_faulty_runs_are_readable_to_the_end(fault: FaultName) -> None:
    config = EngineConfig(block_size=4, num_blocks=14, max_model_len=48, max_num_batched_tokens=9)
    run = outcome(replace(config, fault=fault), [PROMPTS[:4], PROMPTS[:2]], GREEDY)
    assert sum(isinstance(op, Finish) for record in run.records for op in record.ops) == 6
    assert len(run.outputs) == 6


def test_trace_check_detects_a_read_of_released_blocks(tmp_path: Path) -> None:
    """A request decodes from keys of another. The engines do not detect it, and `trace check` does."""
    config = EngineConfig(
        block_size=4, num_blocks=10, max_num_seqs=1, prefill=1, decode=1, routing_policy="round_robin"
    )
    prompts = [[first + i for i in range(13)] for first in range(10, 60, 10)]
    texts, found = [], []
    for fault in (None, "read_after_release"):
        path = tmp_path / f"{fault}.kvtrace"
        cluster = make_cluster(tiny_llama(), replace(config, fault=fault), log_path=path)
        cluster.submit([RequestSpec(prompt, SamplingParams(max_tokens=20, ignore_eos=True)) for prompt in prompts])
        while cluster.num_unfinished:
            cluster.step()
        sequences = cluster.log.state_now().sequences.values()
        texts.append({s.request_id: s.token_ids for s in sequences if "/" not in s.request_id})
        cluster.close()
        found.append([finding.message for finding in check(path)])
    assert found[0] == [] and any("no instance holds transfer" in message for message in found[1])
    assert texts[0] != texts[1] and texts[0].keys() == texts[1].keys()


@pytest.mark.parametrize(
    "wrong", [{"fault": "read_after_release"}, {"fault": "slot_off_by_one", "prefill": 1, "decode": 1}]
)
def test_faults_refuse_settings_that_hide_them(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="fault"):
        resolve(EngineConfig(**wrong), 64)
