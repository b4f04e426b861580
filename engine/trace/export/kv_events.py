"""Export of a trace as vLLM's KV events, for programs that read vLLM's event stream.

A batch is `[ts, events, dp_rank]`, and an event is a map with a `type`. `cache` operations become `BlockStored`
(consecutive blocks of a prefix in one event), `store` operations `BlockStored` with their `medium`, and `evict`
operations `BlockRemoved`. `AllBlocksCleared` never occurs, because a cleared cache begins a new trace. The format lacks
block ids, ref counts, tables, partial blocks and preemptions. A log has no removals from the external store by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import IO, Any

import msgspec

from engine.trace.codec import TraceFormatError
from engine.trace.geometry import geometry, group_index
from engine.trace.log import TraceReader
from engine.trace.operations import Cache, Evict, Medium, Store, Submit
from engine.trace.records import BlockGroup, StepRecord

MEDIUM = "GPU"  # vLLM's name for the pool's device
MEDIA: dict[Medium, str] = {"cpu": "CPU", "disk": "FS"}  # vLLM's names of tiers outside the pool
Event = dict[str, Any]
Batch = list[Any]  # [ts, events, dp_rank]


def kv_event_batches(reader: TraceReader) -> Iterator[Batch]:
    """Yield a batch for each record that stores or removes content; `ts` is seconds since 1970.

    Raises:
        TraceFormatError: a record is damaged, or `created` of the header is not a time.
        TraceStateError: an operation names a block that no pool has.
    """
    try:
        began = datetime.fromisoformat(reader.header.created).timestamp()
    except (ValueError, OverflowError) as error:
        raise TraceFormatError(f"the header's created is not a time: {reader.header.created[:40]!r}") from error
    block_size, groups, *_ = geometry(reader.header)
    salts: dict[int, str] = {}
    cached: dict[int, Cache] = {}  # block id -> its last cache operation
    for index in range(len(reader)):
        record = reader.record(index)
        salts.update((op.seq_id, op.cache_salt) for op in record.ops if isinstance(op, Submit) and op.cache_salt)
        if events := list(_events(record, block_size, groups, salts, cached)):
            yield [began + record.timing.at, events, 0]


def write_kv_events(reader: TraceReader, file: IO[bytes]) -> None:
    """Write the batches as consecutive msgpack values. Hashes are bytes."""
    for batch in kv_event_batches(reader):
        file.write(msgspec.msgpack.encode(batch))


def write_kv_events_json(reader: TraceReader, file: IO[bytes]) -> None:
    """Write the batches as JSON, one per line. Hashes are hexadecimal text."""
    for batch in kv_event_batches(reader):
        file.write(msgspec.json.encode(_readable(batch)) + b"\n")


def _events(
    record: StepRecord, block_size: int, groups: list[BlockGroup], salts: dict[int, str], cached: dict[int, Cache]
) -> Iterator[Event]:
    stored: Event | None = None
    stored_kind: tuple[str, int, int] | None = None  # medium, seq_id, group of layers
    for op in record.ops:
        if isinstance(op, Cache):
            cached[op.block_id] = op
        if isinstance(op, Cache | Store):
            block, medium = cached.get(op.block_id), MEDIA[op.medium] if isinstance(op, Store) else MEDIUM
            if block is None or block.block_hash != op.block_hash:
                continue  # it was stored after the pool had reallocated the block
            salt = salts.get(block.seq_id) if block.parent_hash is None else None
            group = group_index(groups, op.block_id)
            kind = medium, block.seq_id, group
            if stored and stored_kind == kind and stored["block_hashes"][-1] == block.parent_hash:
                stored["block_hashes"].append(block.block_hash)
                stored["token_ids"] += block.token_ids
                if stored["extra_keys"]:
                    stored["extra_keys"].append(None)
                continue
            if stored:
                yield stored
            stored_kind = kind
            stored = {
                "type": "BlockStored",
                "block_hashes": [block.block_hash],
                "parent_block_hash": block.parent_hash,
                "token_ids": list(block.token_ids),
                "block_size": block_size,
                "lora_id": None,
                "medium": medium,
                "lora_name": None,
                "extra_keys": [[salt]] if salt else None,
                "group_idx": group,
            }
        elif isinstance(op, Evict):
            if stored:
                yield stored
                stored = None
            group = group_index(groups, op.block_id)
            yield {"type": "BlockRemoved", "block_hashes": [op.block_hash], "medium": MEDIUM, "group_idx": group}
    if stored:
        yield stored


def _readable(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {k: _readable(v) for k, v in value.items()}
    return [_readable(v) for v in value] if isinstance(value, list) else value
