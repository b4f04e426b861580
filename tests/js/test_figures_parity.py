"""The page derives the same figures from a log as Python: latencies, keys, bytes, waste, hit rates, reasons."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import asdict

from engine.accounting.memory import bytes_per_element, stored_bytes_per_token
from engine.cache.attention_span import AttentionSpan, WindowPolicy, reaches_of
from engine.trace.busy_time import step_seconds
from engine.trace.explain import Wait, goodput_of, overview, timelines
from engine.trace.figures import RunReading, SequenceFigures
from engine.trace.goodput import SLO
from engine.trace.log import TraceReader
from engine.trace.operations import Admit, Allocate, Free
from engine.trace.records import Header, StepRecord
from engine.trace.state import State, memory_figures
from tests.js.node_run import node_output
from tests.paused import write_paused
from tests.unit.engine.runs import CONFIGS, POLICIES, run

ROOT = Path(__file__).parents[2]
FOLDERS = ("tests/golden", "static/recordings", "tests/js/museum")
TRACES = {path.stem: path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.kvtrace"))}


LATER = ("receive", "sent", "expired", "transfer_failed")  # reasons that no log has which leaves them out


@pytest.fixture(scope="module", params=[*TRACES, *CONFIGS, *POLICIES, "paused"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TraceReader]:
    path = TRACES.get(request.param)
    if request.param == "paused":
        path = tmp_path_factory.mktemp("runs") / "paused.kvtrace"
        write_paused(TRACES["instances"], path, 30.0)
    elif path is None:
        path = tmp_path_factory.mktemp("runs") / "run.kvtrace"
        run(request.param, path).close()
    with TraceReader(path) as reader:
        yield reader


@cache
def page(path: Path | None) -> dict[str, Any]:
    """Return what the page derives from a file."""
    return cast(dict[str, Any], json.loads(node_output("figures_dump.mjs", path)))


def records(log: TraceReader) -> list[StepRecord]:
    return [log.record(index) for index in range(len(log))]


def test_memory_and_waste_after_every_record(log: TraceReader) -> None:
    for index, (record, found) in enumerate(zip(records(log), page(log.path)["records"], strict=True)):
        assert found["memory"] == asdict(memory_figures(log.state_at(index))) == asdict(record.memory), index
        assert sum(group["bytes_held"] - group["bytes_used"] for group in found["groups"]) == (
            record.memory.bytes_held - record.memory.bytes_used
        )
    for record, row in zip(records(log), page(log.path)["memory"], strict=True):
        memory = record.memory
        assert (row["used"], row["wasted"]) == (memory.bytes_used, memory.bytes_held - memory.bytes_used)
        assert (row["held"], row["cached"]) == (memory.bytes_held, memory.bytes_cached)


def figures_of(log: TraceReader) -> dict[int, SequenceFigures]:
    reading = RunReading(log.header)
    for index in range(len(log)):
        reading.read(log.record(index), log.num_record_bytes(index))
    return {figures.seq_id: figures for members in reading.members.values() for figures in members}


def test_latencies_of_every_sequence(log: TraceReader) -> None:
    """Python's TTFT and time to the last token are compared; TPOT = (last - first) / (tokens - 1)."""
    mine = figures_of(log)
    assert {row["seq"] for row in page(log.path)["sequences"]} == set(mine)
    for row in page(log.path)["sequences"]:
        figures = mine[row["seq"]]
        tokens = len(figures.tokens)
        assert row["tokens"] == tokens
        assert row["ttft"] == (None if figures.ttft is None else pytest.approx(figures.ttft, abs=1e-9))
        if tokens > 1:
            assert figures.seconds is not None and figures.ttft is not None
            assert row["tpot"] == pytest.approx((figures.seconds - figures.ttft) / (tokens - 1), abs=1e-9)
            assert sum(row["itl"]) == pytest.approx(figures.seconds - figures.ttft, abs=1e-9)
        else:
            assert row["tpot"] is None and row["itl"] == []


def test_waiting_times(log: TraceReader) -> None:
    """A request waits from the end of the record that submitted it to the beginning of the one that first
    admitted it.
    """
    if len(log.header.instances) > 1:
        return  # its parts wait on several instances: tests/unit/trace/test_parts.py
    ends, clock = [], 0.0
    for record in records(log):
        clock += step_seconds(record.timing)
        ends.append(clock)
    rows = {row["seq"]: row for row in page(log.path)["sequences"]}
    for story in timelines(log):
        admitted = next((event.record for event in story.events if isinstance(event.op, Admit)), None)
        if story.events[0].op.__class__.__name__ == "Submit":
            expected = None if admitted is None else ends[admitted - 1] - ends[story.events[0].record]
            assert rows[story.seq_id]["queue"] == (None if expected is None else pytest.approx(expected, abs=1e-9))


def test_the_figures_of_every_request(log: TraceReader) -> None:
    """The page's table of requests equals the output of `trace explain` for every sequence."""
    mine, theirs = overview(log), page(log.path)["requests"]
    rows = {row["seq"]: row for row in theirs["rows"]}
    assert len(rows) == len(theirs["rows"])
    named = {named.figures.seq_id: named for named in mine.sequences}
    assert set(rows) == set(named)
    for seq_id, found in named.items():
        row, figures = rows[seq_id], found.figures
        assert row["parts"] == figures.parts and row["moved"] == figures.received_bytes
        assert (row["request"], row["end"]) == (found.request_id, figures.finish_reason or figures.status)
        assert (row["prompt"], row["output"]) == (len(figures.prompt_token_ids), len(figures.tokens))
        assert (row["hit"], row["preempted"]) == (figures.num_cached_tokens, figures.num_preemptions)
        assert (row["lost"], row["slow"]) == (found.recomputed_tokens, found.slow_steps)
        for name, seconds in (("queue", figures.queue), ("ttft", figures.ttft), ("tpot", found.tpot)):
            assert row[name] == (None if seconds is None else pytest.approx(seconds, abs=1e-9)), name


def test_the_slowest_steps(log: TraceReader) -> None:
    mine, theirs = overview(log), page(log.path)["requests"]
    assert (theirs["num_slow"], theirs["median"]) == (mine.num_slow, mine.median_seconds)
    for step, found in zip(mine.slowest, theirs["slowest"], strict=True):
        assert (found["record"], found["step"], found["seconds"]) == (step.record, step.step, step.seconds)
        assert (found["prefill"], found["decode"]) == (step.prefill_tokens, step.decode_tokens)


def test_goodput(log: TraceReader) -> None:
    theirs = page(log.path)["goodput"]
    mine = goodput_of(overview(log), SLO(**theirs["slo"]))
    assert (theirs["met"], theirs["ended"]) == (mine.met, mine.ended)
    assert theirs["per_second"] == (None if mine.per_second is None else pytest.approx(mine.per_second))


def waited(wait: Wait | None) -> dict[str, Any] | None:
    """Return a wait in the page's form."""
    if wait is None:
        return None
    last = wait.last and {name: getattr(wait.last, name) for name in ("reason", "needed", "available")}
    return {**asdict(wait), "last": last}


def test_the_story_of_every_sequence(log: TraceReader) -> None:
    for story, theirs in zip(timelines(log), page(log.path)["stories"], strict=True):
        assert (theirs["seq"], theirs["request_id"]) == (story.seq_id, story.request_id)
        for event, found in zip(story.events, theirs["events"], strict=True):
            tag = event.op.__struct_config__.tag
            assert (found["record"], found["step"], found["type"]) == (event.record, event.step, tag)
            assert log.record(event.record).ops[found["at"]] == event.op
            assert found["again"] == event.computed_again
            assert theirs_of(found["wait"]) == waited(event.wait)
        assert theirs_of(theirs["waiting"]) == waited(story.waiting)


def theirs_of(wait: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a wait of the page, with the type of its last refusal."""
    if wait is None or wait["last"] is None:
        return wait
    return {**wait, "last": {name: wait["last"][name] for name in ("reason", "needed", "available")}}


def policy_of(header: Header) -> WindowPolicy | None:
    engine = header.engine
    if not engine.get("attention_window"):
        return None
    pattern = engine.get("sliding_window_pattern")
    window, sinks = int(engine["attention_window"] or 0), int(engine.get("attention_sinks") or 0)
    return WindowPolicy(window, sinks, None if pattern is None else int(pattern))


def seen_by(reach: AttentionSpan, query: int) -> list[int]:
    """Return the visible keys: the sinks, and the window up to the query."""
    first = 0 if reach.window is None else max(0, query - reach.window + 1)
    return [*range(min(reach.sinks, first)), *range(first, query + 1)]


def test_visible_keys_of_every_query(log: TraceReader) -> None:
    reaches = reaches_of(log.header.model.sliding_windows, policy_of(log.header))
    for record, found in zip(records(log), page(log.path)["records"], strict=True):
        for entry, theirs in zip(record.batch, found["batch"], strict=True):
            seen = [seen_by(reach, entry.context_len - 1) for reach in reaches]
            assert theirs["visible"] == seen
            assert theirs["keys_read"] == [len(keys) for keys in seen]
        if record.work is not None and record.batch and all(len(entry.token_ids) == 1 for entry in record.batch):
            read = sum(sum(entry["keys_read"]) for entry in found["batch"])
            per_layer = log.header.kv_bytes_per_token // log.header.model.num_layers
            assert read * per_layer == record.work.kv_read_bytes


def test_the_terms_of_a_tokens_bytes(log: TraceReader) -> None:
    header, terms = log.header, page(log.path)["terms"]
    dtype = str(header.engine.get("kv_cache_dtype") or "auto")
    stored = header.model.dtype if dtype == "auto" else "float8" if dtype.startswith("fp8") else dtype
    assert terms["bytes_per_token"] == header.kv_bytes_per_token == stored_bytes_per_token(header.model, dtype)
    assert terms["element_bytes"] == bytes_per_element(stored)
    for group, theirs in zip(log.state_at(-1).block_groups, page(log.path)["group_terms"], strict=True):
        assert (theirs["bytes_per_token"], theirs["num_layers"]) == (group.kv_bytes_per_token, len(group.layers))
        assert theirs["element_bytes"] == (0 if group.state_bytes else terms["element_bytes"])


def reserved(header: Header, state: State) -> tuple[int, int]:
    """Return the slots of the running sequences, each with max_model_len, and each with its own maximum."""
    each = int(header.engine["max_model_len"] or 0)
    running = [state.sequences[seq_id] for seq_id in state.running]
    return len(running) * each, sum(min(s.num_prompt_tokens + s.max_tokens, each) for s in running)


def test_contiguous_reservations_are_computed(log: TraceReader) -> None:
    for index, found in enumerate(page(log.path)["records"]):
        if found["reserved"] is None:
            has_states = any(group.state_bytes for group in log.header.block_groups)
            assert has_states or not log.header.engine.get("max_model_len")
            continue
        theirs = found["reserved"]
        assert (theirs["contiguous_slots"], theirs["limit_slots"]) == reserved(log.header, log.state_at(index))
        if log.header.engine["strategy"] == "paged":
            held = memory_figures(log.state_at(index)).bytes_held / log.header.kv_bytes_per_token
            assert theirs["paged_slots"] == pytest.approx(held)


def test_the_seconds_and_the_work_of_every_step(log: TraceReader) -> None:
    computed = [record for record in records(log) if record.kind == "step" and record.batch]
    for record, row in zip(computed, page(log.path)["steps"], strict=True):
        assert (row["record"], row["step"]) == (record.index, record.step)
        assert row["total"] == pytest.approx(step_seconds(record.timing), abs=1e-12)
    by_record = {record.index: record for record in computed}
    for row in page(log.path)["roofline"]:
        work = by_record[row["record"]].work
        assert work is not None
        moved = work.weight_bytes + work.kv_read_bytes + work.kv_write_bytes
        assert (row["flops"], row["bytes"]) == (work.flops, moved)
        assert row["intensity"] == pytest.approx(work.flops / moved)


def test_reasons_that_an_older_log_leaves_to_be_guessed(log: TraceReader) -> None:
    """The reason derived from the other operations equals the logged one in logs that have it."""
    for record, found in zip(records(log), page(log.path)["records"], strict=True):
        reasons = [op.reason for op in record.ops if isinstance(op, Allocate | Free)]
        for mine, theirs in zip(reasons, found["reasons"], strict=True):
            assert mine is None or mine in LATER or theirs == mine, record.index
