"""Records, with round numbers, of a request that one instance prefills and another decodes."""

from typing import Any

from msgspec.structs import replace

from engine.trace.operations import Admit, Arrive, Await, Finish, Hold, KVRole, Lookup, Op, Sample, Submit
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


def numbered(records: list[StepRecord]) -> list[StepRecord]:
    return [replace(one, index=index) for index, one in enumerate(records)]
