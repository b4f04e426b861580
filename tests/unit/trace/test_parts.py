"""A request that two instances had is one: its times begin where it came, its tokens are the second one's."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from engine.trace.events import (
    Admit,
    Arrive,
    Await,
    Finish,
    Hold,
    KVRole,
    Lookup,
    Lost,
    Op,
    Sample,
    Submit,
)
from engine.trace.figures import RunFigures, RunReading, SequenceFigures
from engine.trace.records import BlockGroup, InstanceFacts, Memory, Output, StepRecord, Timing
from tests.golden.make import HEADER

MOVED = 4096
GROUPS = [
    BlockGroup(instance=i, layers=[0], first_block=12 * i, num_blocks=12, window=None, kv_bytes_per_token=16)
    for i in (0, 1)
]
SHARED = replace(
    HEADER,
    block_groups=GROUPS,
    instances=[InstanceFacts(name="prefill-0", role="prefill"), InstanceFacts(name="decode-0", role="decode")],
)
EMPTY = Memory.counted(
    num_blocks=24, block_size=4, blocks_held=0, blocks_cached=0, tokens_held=0, tokens_logical=0, kv_bytes_per_token=16
)


def submit(seq_id: int, request_id: str, kv_role: KVRole | None = None) -> Submit:
    return Submit(
        seq_id=seq_id, queue_position=0, request_id=request_id, prompt_token_ids=[1, 2, 3],
        prompt_token_bytes=[b"a"] * 3, max_tokens=2, transfer=None if kv_role is None else "X#1", kv_role=kv_role,
    )  # fmt: skip


def record(instance: int, at: float, seconds: float, ops: list[Op], kind: Any = "step") -> StepRecord:
    outputs = [
        Output(seq_id=op.seq_id, token_id=op.token_id, token_bytes=b"a", text="a", logprob=0.0, top=[])
        for op in ops
        if isinstance(op, Sample)
    ]
    return StepRecord(
        index=0, instance=instance, kind=kind, step=1, ops=ops, outputs=outputs,
        timing=Timing(at=at, forward=seconds), memory=EMPTY,
    )  # fmt: skip


def lookup(seq_id: int) -> Lookup:
    return Lookup(seq_id=seq_id, verdict="miss", num_tokens=3, num_hit_tokens=0, block_ids=[])


PREFILL = [
    record(0, 1.0, 0.0, [submit(0, "X/prefill", "kv_producer")], "submit"),
    record(
        0, 3.0, 1.5,
        [
            lookup(0), Admit(seq_id=0, num_cached_tokens=0, resumed=False), Sample(seq_id=0, token_id=7),
            Finish(seq_id=0, reason="length"), Hold(seq_id=0, transfer="X#1", num_tokens=3, lease=30.0),
        ],
    ),
]  # fmt: skip
DECODE = [
    record(1, 3.1, 0.0, [submit(1, "X", "kv_consumer")], "submit"),
    record(1, 3.3, 0.1, [lookup(1), Await(seq_id=1, transfer="X#1", num_cached_tokens=0, num_tokens=2)]),
    record(
        1, 4.0, 0.0,
        [
            Arrive(
                seq_id=1, transfer="X#1", queue_position=0, num_tokens=2, num_bytes=MOVED, link="l", began=3.3, ended=4
            )
        ],
        "transfer",
    ),
    record(
        1, 4.5, 0.2,
        [Admit(seq_id=1, num_cached_tokens=0, resumed=False, num_external_tokens=2), Sample(seq_id=1, token_id=8)],
    ),
    record(1, 5.0, 0.4, [Sample(seq_id=1, token_id=9), Finish(seq_id=1, reason="length")]),
]  # fmt: skip


def figures(records: list[StepRecord]) -> tuple[RunFigures, list[SequenceFigures]]:
    reading = RunReading(SHARED)
    for index, one in enumerate(records):
        reading.read(replace(one, index=index), 100)
    return reading.figures(), [member for members in reading.members.values() for member in members]


def test_what_two_instances_computed_is_one_request() -> None:
    run, [request] = figures([*PREFILL, *DECODE])
    assert (run.totals.requests, run.totals.unfinished) == (1, 0)
    assert run.totals.output_tokens == 2, "the token of who computed the prompt counts nowhere"
    assert run.totals.seconds == 5.0 - 1.0, "by the clock that they share"
    assert run.totals.received_bytes == request.received_bytes == MOVED
    assert (request.seq_id, request.parts, request.finish_reason) == (1, [0, 1], "length")
    assert [token.token_id for token in request.tokens] == [8, 9]
    assert request.queue == pytest.approx((3.0 - 1.5) - 1.0), "until the step that computed its prompt began"
    assert request.ttft == pytest.approx(4.5 - 1.0) and request.tpot == pytest.approx(5.0 - 4.5)
    assert request.num_cached_tokens == 0, "what was moved was computed, not found"


def test_a_part_that_is_lost_before_it_had_tokens_is_gone_on_with() -> None:
    lost = record(1, 3.5, 0.0, [Lost(detail="killed")], "lost")
    again = [replace(one, timing=replace(one.timing, at=one.timing.at + 3)) for one in PREFILL]
    again[0] = replace(again[0], ops=[submit(2, "X/prefill", "kv_producer")])
    again[1] = replace(again[1], ops=[replace(op, seq_id=2) for op in again[1].ops])  # type: ignore[type-var]
    run, [request] = figures([*PREFILL, *DECODE[:2], lost, *again])
    assert (run.totals.requests, request.parts, request.tokens) == (1, [0, 1, 2], [])
    assert (request.finish_reason, request.ttft) == ("length", None), "of its last part; nothing came of it yet"


def test_a_part_that_is_lost_with_tokens_ends_the_request() -> None:
    lost = record(1, 4.6, 0.0, [Lost(detail="killed")], "lost")
    other = record(0, 6.0, 0.0, [submit(4, "X")], "submit")
    run, requests = figures([*PREFILL, *DECODE[:4], lost, other])
    assert [(one.parts, one.finish_reason) for one in requests] == [([0, 1], "abort"), ([4], None)]
    assert (run.totals.requests, run.totals.unfinished) == (2, 1), "the second is another of the same name"


def test_what_one_instance_writes_alone_has_no_parts() -> None:
    """The log of one side of a transfer: there the producer's sequence is the request."""
    reading = RunReading(HEADER)
    for index, one in enumerate(PREFILL):
        reading.read(replace(one, index=index), 100)
    [[request]] = reading.members.values()
    assert list(reading.members) == [("X/prefill", 0)] and len(request.tokens) == 1
    assert reading.figures().totals.seconds == 1.5
