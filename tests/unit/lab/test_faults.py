"""Exhibits of the fault museum: damage, step and detection of each, against a healthy twin."""

from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest
from msgspec.structs import replace

from engine.config import ConfigError, EngineConfig, FaultName, SamplingParams
from engine.engine import Engine
from engine.lab.faults import FAULTS, OF_SEVERAL, make_cluster, make_engine
from engine.model.capture import CaptureRequest
from engine.requests.request_spec import RequestSpec
from engine.setup.resolve import resolve
from engine.trace.check import check
from engine.trace.operations import Copy, Finish, Preempt
from engine.trace.records import Objection, StepRecord
from tests.unit.engine.runs import GREEDY, PROMPTS, log_of, tiny_llama

LONG = PROMPTS[0]


class Outcome(NamedTuple):
    """Complete run."""

    records: list[StepRecord]
    outputs: list[list[int]]  # token ids by sequence, as the log tells them
    captures: list[np.ndarray]  # the last layer's keys, record by record


def outcome(config: EngineConfig, groups: list[list[list[int]]], sampling: SamplingParams) -> Outcome:
    """Submit each group of prompts when the one before has finished."""
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
        keys = [c.layers[-1].k for record in records if (c := log.capture(record.index)) is not None]
        return Outcome(records, [tokens[seq_id] for seq_id in sorted(tokens)], keys)


def twins(
    fault: FaultName, config: EngineConfig, groups: list[list[list[int]]], sampling: SamplingParams = GREEDY
) -> tuple[Outcome, Outcome]:
    """Return the healthy run and the faulty one."""
    return outcome(config, groups, sampling), outcome(replace(config, fault=fault), groups, sampling)


ROOMY = EngineConfig(block_size=4, num_blocks=64, max_model_len=64)


def first_finding(run: Outcome) -> tuple[int, list[Objection]]:
    return next((record.index, record.objections) for record in run.records if record.integrity)


def test_the_museum_shows_every_fault_there_is() -> None:
    assert set(FAULTS) | set(OF_SEVERAL) == set(get_args(FaultName))


def test_a_healthy_engine_is_no_exhibit() -> None:
    with make_engine(tiny_llama(), ROOMY, keep_log=False) as engine:
        assert type(engine) is Engine


def test_slot_off_by_one() -> None:
    """The first token reads the wrong slots; the accounting, which only counts, does not notice."""
    healthy, faulty = twins("slot_off_by_one", ROOMY, [[LONG]])
    assert healthy.outputs != faulty.outputs
    assert not any(record.integrity for record in faulty.records)


def test_no_copy_at_shared_write() -> None:
    """Prompt of 17 in blocks of 4: two samples share block 4 and write position 17 into the same slot.

    The guard says so in the first step that both decode; what the second one wrote is what both read afterwards.
    """
    sampling = SamplingParams(max_tokens=6, ignore_eos=True, n=2, temperature=1.5, seed=3)
    healthy, faulty = twins("no_copy_at_shared_write", ROOMY, [[LONG]], sampling)
    index, found = first_finding(faulty)
    assert {(one.rule, one.block_id) for one in found} == {("shared_write", 4)}
    assert [entry.start for entry in faulty.records[index].batch] == [17, 17]
    assert any(isinstance(op, Copy) for record in healthy.records for op in record.ops)
    assert not any(isinstance(op, Copy) for record in faulty.records for op in record.ops)
    assert healthy.outputs != faulty.outputs


def test_stale_hash_after_reallocation() -> None:
    """The second prompt takes blocks that the first one left cached in a pool of 8.

    When the first prompt returns, the index hands it the second one's content.
    """
    config = EngineConfig(block_size=4, num_blocks=8, max_model_len=32)
    other = [token + 30 for token in LONG]
    healthy, faulty = twins("stale_hash_after_reallocation", config, [[LONG], [other], [LONG]])
    _, (found, *_) = first_finding(faulty)
    assert found.rule == "stale_index"
    assert str(found.block_id) in found.text
    assert healthy.outputs[0] == healthy.outputs[2]
    assert faulty.outputs[0] == healthy.outputs[0]
    assert faulty.outputs[2] != healthy.outputs[2]


def test_output_lost_at_preemption() -> None:
    """The pool is too small for all: a preempted sequence continues as if it had no output."""
    config = EngineConfig(block_size=4, num_blocks=14, max_model_len=48)
    healthy, faulty = twins("output_lost_at_preemption", config, [PROMPTS[:4]])
    assert any(isinstance(op, Preempt) for record in healthy.records for op in record.ops)
    assert healthy.outputs != faulty.outputs


def test_missing_causal_mask() -> None:
    """Keys of the first layer are computed before any attention and agree; those of the last layer differ from the
    first step on.
    """
    healthy, faulty = twins("missing_causal_mask", ROOMY, [[LONG]])
    assert not np.allclose(healthy.captures[0], faulty.captures[0], atol=1e-3)


def test_rope_restarted_at_chunk() -> None:
    """The first chunk of 5 is right; keys of the second are rotated as if it came first."""
    config = replace(ROOMY, max_num_batched_tokens=5)
    healthy, faulty = twins("rope_restarted_at_chunk", config, [[LONG]])
    np.testing.assert_allclose(healthy.captures[0], faulty.captures[0], atol=1e-6)
    assert not np.allclose(healthy.captures[1], faulty.captures[1], atol=1e-3)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_log_of_a_fault_can_be_read_to_its_end(fault: FaultName) -> None:
    """A recording of a fault can be read whole, damage or not."""
    config = EngineConfig(block_size=4, num_blocks=14, max_model_len=48, max_num_batched_tokens=9)
    run = outcome(replace(config, fault=fault), [PROMPTS[:4], PROMPTS[:2]], GREEDY)
    assert sum(isinstance(op, Finish) for record in run.records for op in record.ops) == 6
    assert len(run.outputs) == 6


def test_read_after_release(tmp_path: Path) -> None:
    """A request decodes from another's keys; the engines notice nothing, and `trace check` names it."""
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
    assert found[0] == [] and any("held by no instance" in message for message in found[1])
    assert texts[0] != texts[1] and texts[0].keys() == texts[1].keys()


@pytest.mark.parametrize(
    "wrong", [{"fault": "read_after_release"}, {"fault": "slot_off_by_one", "prefill": 1, "decode": 1}]
)
def test_faults_refuse_settings_that_hide_them(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="fault"):
        resolve(EngineConfig(**wrong), 64)
