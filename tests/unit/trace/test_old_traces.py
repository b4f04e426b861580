"""Traces written before some fields existed are read with the fields' defaults."""

from typing import Any

import msgspec
import pytest

from engine.trace import codec
from engine.trace.operations import Op
from engine.trace.records import Header, Memory, Objection, StepRecord, Timing
from engine.trace.state import State, initial_state

FIRST_FIELDS: list[dict[str, Any]] = [
    {"type": "lookup", "seq_id": 0, "verdict": "miss", "num_tokens": 9, "num_hit_tokens": 0, "block_ids": []},
    {"type": "admit", "seq_id": 0, "num_cached_tokens": 0, "resumed": False},
    {"type": "evict", "block_id": 0, "block_hash": b"h"},
    {"type": "fork", "parent_seq_id": 0, "seq_id": 1, "request_id": "r"},
    {
        "type": "preempt", "seq_id": 0, "queue_position": 0, "mode": "recompute", "for_seq_id": 1,
        "num_computed_tokens": 7,
    },
    {"type": "finish", "seq_id": 0, "reason": "stop"},
]  # fmt: skip


@pytest.mark.parametrize("fields", FIRST_FIELDS, ids=lambda f: f["type"])
def test_operations_without_later_fields_are_read(fields: dict[str, Any]) -> None:
    op = msgspec.msgpack.decode(msgspec.msgpack.encode(fields), type=Op)
    assert {
        name: value for name, value in msgspec.to_builtins(op, builtin_types=(bytes,)).items() if name in fields
    } == fields


def test_records_and_states_without_later_fields_are_read(header: Header) -> None:
    counts = {"num_blocks": 4, "block_size": 2, "blocks_held": 1, "blocks_cached": 1}
    memory = Memory.counted(**counts, tokens_held=1, tokens_logical=1, kv_bytes_per_token=1)
    plain = msgspec.to_builtins(StepRecord(index=0, kind="step", step=1, timing=Timing(at=0), memory=memory))
    del plain["prompt_logprobs"], plain["memory"]["swap_blocks"], plain["memory"]["swap_blocks_held"]
    read = codec.decode(msgspec.msgpack.encode(plain), StepRecord)
    assert (read.prompt_logprobs, read.memory) == ([], memory)
    assert memory.usage_held == 0.25
    state = msgspec.to_builtins(initial_state(header), builtin_types=(bytes,))
    del state["cpu_blocks"], state["recent_lookups"]
    for block in state["blocks"]:
        del block["num_hits"], block["last_hit_in"]
    assert codec.decode(msgspec.msgpack.encode(state), State) == initial_state(header)


def test_objections_without_rules_are_read() -> None:
    memory = Memory.counted(
        num_blocks=1,
        block_size=2,
        blocks_held=0,
        blocks_cached=0,
        tokens_held=0,
        tokens_logical=0,
        kv_bytes_per_token=1,
    )
    plain = msgspec.to_builtins(StepRecord(index=0, kind="step", step=1, timing=Timing(at=0), memory=memory))
    old = codec.decode(msgspec.msgpack.encode({**plain, "integrity": "one; another"}), StepRecord)
    assert old.objections == [Objection(text="one"), Objection(text="another")]
    assert codec.decode(msgspec.msgpack.encode({**plain, "integrity": ""}), StepRecord).objections == []
