"""Exports have the steps, operations and hashes of the trace."""

import csv
import io
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import msgspec
import pytest

from engine.trace.export import ExportError
from engine.trace.export.kv_events import write_kv_events, write_kv_events_json
from engine.trace.export.perfetto import write_perfetto
from engine.trace.export.tables import EVENTS, STEPS, write_csv, write_parquet
from engine.trace.log import TraceReader
from engine.trace.operations import Cache, Evict, Finish, Fork, Load, Preempt, Store, Submit
from engine.trace.records import StepRecord
from tests.unit.engine.runs import run

GOLDEN = Path(__file__).parents[2] / "golden" / "cache.kvtrace"  # has forks, copies, evictions and all preemptions
OUTSIDE = GOLDEN.with_name("outside.kvtrace")  # has blocks outside the pool


@pytest.fixture
def reader():
    with TraceReader(GOLDEN) as reader:
        yield reader


@pytest.fixture
def golden(reader: TraceReader) -> list[StepRecord]:
    return [reader.record(i) for i in range(len(reader))]


def ops(records: list[StepRecord], *kinds: type) -> list[Any]:
    return [op for record in records for op in record.ops if isinstance(op, kinds)]


def perfetto(reader: TraceReader) -> list[dict[str, Any]]:
    file = io.BytesIO()
    write_perfetto(reader, file)
    exported = json.loads(file.getvalue())
    assert set(exported) == {"displayTimeUnit", "otherData", "traceEvents"}
    return list(exported["traceEvents"])


def test_perfetto_has_a_track_per_sequence_and_its_events(reader, golden):
    events = perfetto(reader)
    names = Counter(e["name"].split(" (")[0] for e in events if e["ph"] == "i")
    assert names["finish"] == len(ops(golden, Finish)) > 0
    assert names["preempt"] == len(ops(golden, Preempt)) > 0
    tracks = {e["tid"] for e in events if e["ph"] == "M" and e["pid"] == 2 and e["name"] == "thread_name"}
    assert tracks == {op.seq_id for op in ops(golden, Submit, Fork)}
    assert all(e["dur"] >= 0 for e in events if e["ph"] == "X")
    held = [e["args"]["held"] for e in events if e["ph"] == "C" and e["name"] == "blocks"]
    assert held == [record.memory.blocks_held for record in golden]


def test_perfetto_times_are_those_of_the_records(reader, monkeypatch):
    """A step that ends at 2.0 s after phases of 0.1, 0.2, 0.3 and 0.1 s begins at 1.3 s."""
    record = msgspec.structs.replace(
        reader.record(1),
        kind="step",
        timing=msgspec.convert(
            {"at": 2.0, "schedule": 0.1, "prepare": 0.2, "forward": 0.3, "sample": 0.1}, type(reader.record(1).timing)
        ),
    )
    monkeypatch.setattr(reader, "record", lambda index: msgspec.structs.replace(record, index=index))
    monkeypatch.setattr(type(reader), "__len__", lambda self: 1)
    slices = {
        e["name"]: (round(e["ts"]), round(e["dur"])) for e in perfetto(reader) if e["ph"] == "X" and e["pid"] == 1
    }
    assert slices == {
        f"step {record.step}": (1_300_000, 700_000),
        "schedule": (1_300_000, 100_000),
        "prepare": (1_400_000, 200_000),
        "forward": (1_600_000, 300_000),
        "sample": (1_900_000, 100_000),
    }


def test_csv_has_a_row_for_each_record_and_operation(reader, golden, tmp_path):
    write_csv(reader, tmp_path)
    steps = list(csv.DictReader((tmp_path / "steps.csv").open(encoding="utf-8")))
    assert [int(row["blocks_held"]) for row in steps] == [r.memory.blocks_held for r in golden]
    assert list(steps[0]) == [name for name, _ in STEPS]
    events = list(csv.DictReader((tmp_path / "events.csv").open(encoding="utf-8")))
    assert [row["type"] for row in events] == [op.__struct_config__.tag for r in golden for op in r.ops]
    row = next(row for row in events if row["type"] == "cache")
    cached = ops(golden, Cache)[0]
    assert int(row["block_id"]) == cached.block_id
    assert json.loads(row["fields"])["block_hash"] == cached.block_hash.hex()


def test_parquet_has_the_rows_of_csv(reader, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    write_csv(reader, tmp_path)
    write_parquet(reader, tmp_path)
    for name, columns in (("steps", STEPS), ("events", EVENTS)):
        table = pq.read_table(tmp_path / f"{name}.parquet")
        rows = list(csv.DictReader((tmp_path / f"{name}.csv").open(encoding="utf-8")))
        assert table.column_names == [column for column, _ in columns] and table.num_rows == len(rows)
        for column in table.column_names:
            values = ["" if v is None else str(v) for v in table.column(column).to_pylist()]
            assert values == [row[column] for row in rows]


def test_parquet_without_pyarrow_names_the_package_to_install(reader, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ExportError, match=r"pip install 'kvtheater\[parquet\]'"):
        write_parquet(reader, tmp_path)


def test_kv_events_store_and_remove_the_same_hashes(reader, golden):
    """A subscriber that applies the events in order has the hashes of the trace's state."""
    file = io.BytesIO()
    write_kv_events(reader, file)
    file.seek(0)
    stored, removed = 0, 0
    live: Counter[bytes] = Counter()
    times = []
    for ts, events, dp_rank in msgpack.Unpacker(file):
        times.append(ts)
        assert dp_rank == 0
        for event in events:
            if event["type"] == "BlockStored":
                count = len(event["block_hashes"])
                assert len(event["token_ids"]) == count * event["block_size"] == count * 4
                stored += count
                live.update(event["block_hashes"])
            else:
                assert event["type"] == "BlockRemoved"
                removed += len(event["block_hashes"])
                live.subtract(event["block_hashes"])
    assert (stored, removed) == (len(ops(golden, Cache)), len(ops(golden, Evict)))
    assert times == sorted(times)
    state = reader.state_at(len(reader) - 1)
    assert +live == Counter(block.block_hash for block in state.blocks if block.block_hash is not None)


def test_consecutive_blocks_of_a_chain_are_one_kv_event(reader, golden):
    """The parent of the first hash is `parent_block_hash`, and of another the previous one."""
    parents = {op.block_hash.hex(): op.parent_hash and op.parent_hash.hex() for op in ops(golden, Cache)}
    file = io.BytesIO()
    write_kv_events_json(reader, file)
    lengths = []
    for line in file.getvalue().splitlines():
        for event in json.loads(line)[1]:
            if event["type"] == "BlockStored":
                hashes = event["block_hashes"]
                lengths.append(len(hashes))
                assert [parents[h] for h in hashes] == [event["parent_block_hash"], *hashes[:-1]]
    assert max(lengths) > 1


def test_kv_events_name_the_group_of_layers(tmp_path):
    """A hybrid run stores each full block once per group. A group removes only hashes that it has stored."""
    run("hybrid", tmp_path / "run.kvtrace").close()
    file = io.BytesIO()
    with TraceReader(tmp_path / "run.kvtrace") as reader:
        write_kv_events(reader, file)
        state = reader.state_at(len(reader) - 1)
    file.seek(0)
    live: list[Counter[bytes]] = [Counter(), Counter()]
    for _, events, _ in msgpack.Unpacker(file):
        for event in events:
            change = live[event["group_idx"]]
            (change.update if event["type"] == "BlockStored" else change.subtract)(event["block_hashes"])
            assert min(change.values()) >= 0
    for group, hashes in zip(state.block_groups, live, strict=True):
        blocks = state.blocks[group.first_block : group.first_block + group.num_blocks]
        assert +hashes == Counter(block.block_hash for block in blocks if block.block_hash is not None) != Counter()


def test_kv_events_of_stores_outside_the_pool_have_tier_and_tokens():
    """A store has the event of the copied block with vLLM's name of the tier."""
    file = io.BytesIO()
    with TraceReader(OUTSIDE) as outside:
        write_kv_events(outside, file)
        outside_records = [outside.record(index) for index in range(len(outside))]
    tokens = {op.block_hash: op.token_ids for op in ops(outside_records, Cache)}
    stores = [(op.block_hash, {"cpu": "CPU", "disk": "FS"}[op.medium]) for op in ops(outside_records, Store)]
    file.seek(0)
    found = []
    for _, events, _ in msgpack.Unpacker(file):
        for event in events:
            if event["medium"] != "GPU":
                assert event["type"] == "BlockStored"
                assert event["token_ids"] == [token for h in event["block_hashes"] for token in tokens[h]]
                found += [(block_hash, event["medium"]) for block_hash in event["block_hashes"]]
    assert found == stores and {medium for _, medium in stores} == {"CPU", "FS"}


def test_perfetto_has_loads_and_stores_outside_the_pool():
    with TraceReader(OUTSIDE) as outside:
        events = perfetto(outside)
        outside_records = [outside.record(index) for index in range(len(outside))]
    names = Counter(event["name"] for event in events)
    loads, stores = ops(outside_records, Load), ops(outside_records, Store)
    assert sum(names[f"load block {i} from {m}"] for i, m in {(o.block_id, o.medium) for o in loads}) == len(loads) > 0
    assert sum(names[f"store block {i} in {m}"] for i, m in {(o.block_id, o.medium) for o in stores}) == len(stores)
    held = [event["args"] for event in events if event["name"] == "blocks outside"]
    assert held == [{tier.medium: tier.num_blocks for tier in record.tiers} for record in outside_records]
