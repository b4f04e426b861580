"""States kept in a log, so that finding one does not mean folding everything before it."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.trace import codec
from engine.trace.records import BlockGroup
from engine.trace.state import State


def read_keyframe(payload: bytes, groups: list[BlockGroup]) -> State:
    """The state in a keyframe of a log whose header has these groups of layers.

    Logs from before there were groups name one table a sequence and one free queue: they are those of the only group.

    Raises:
        TraceFormatError: says which field is wrong.
    """
    try:
        fields: Any = msgspec.msgpack.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise codec.TraceFormatError(f"not a valid State: {error}") from error
    if not isinstance(fields, dict) or "free_queue" not in fields:
        return codec.decode(payload, State)
    fields["free_queues"], fields["block_groups"] = [fields.pop("free_queue")], groups
    sequences = fields.get("sequences")
    for sequence in sequences.values() if isinstance(sequences, dict) else ():
        if isinstance(sequence, dict):
            sequence["block_tables"] = [sequence.pop("block_table", [])]
    return codec.decode(codec.encode(fields), State)
