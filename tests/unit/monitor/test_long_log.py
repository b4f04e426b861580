"""Long monitoring, in which a full log ends and the next one begins with the known contents."""

from pathlib import Path
from random import Random

from engine.observe.monitor.observed_log import ObservedLog, header_of
from engine.observe.monitor.sequence import Break, Message
from engine.trace.check import check
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.operations import KnownSince
from tests.unit.monitor.publisher import message, removed, stored

RANKS, MESSAGES = 2, 120
MEDIA = ("GPU", "CPU")


def watch(path: Path, max_bytes: int, max_parts: int | None = None) -> tuple[ObservedLog, list[set[bytes]]]:
    """Record two ranks, and return the log and the contents that each rank has cached at the end."""
    draw = Random(5)
    header = header_of(model="m", source="vLLM", block_size=2, num_blocks=64, events=["tcp://a:1", "tcp://a:2"])
    observed = ObservedLog(header, path, max_bytes=max_bytes, max_parts=max_parts)
    cached: list[dict[bytes, str]] = [{} for _ in range(RANKS)]
    for rank in range(RANKS):
        observed.receive(rank, Break("attached", 0))
    for number in range(MESSAGES):
        for rank, known in enumerate(cached):
            name, medium = b"%d.%d" % (rank, number), draw.choice(MEDIA)
            events = [stored([name], [number, rank], 2, medium=medium)]
            known[name] = medium
            if number % 3:
                evicted = draw.choice(list(known))
                events.append(removed([evicted], medium=known.pop(evicted)))
            observed.receive(rank, Message(number, message(*events), False))
        observed.numbers({0: {"vllm:num_requests_running": float(number)}})
    return observed, [set(known) for known in cached]


def known_in(log: TraceReader, count: int | None = None) -> list[set[bytes]]:
    """Return the known contents by rank after the first `count` records (None: all)."""
    state = log.state_at((len(log) if count is None else count) - 1)
    found: list[set[bytes]] = [set() for _ in range(RANKS)]
    for block in state.blocks:
        if block.block_hash is not None:
            found[block.block_id // 64].add(block.block_hash)
    for place in state.outside:
        if place.block_hash is not None:
            found[place.instance].add(place.block_hash)
    return found


def test_each_next_log_begins_with_the_known_contents(tmp_path: Path) -> None:
    path = tmp_path / "seen.kvtrace"
    observed, cached = watch(path, max_bytes=8 << 10)
    observed.log.close()
    parts = sorted(tmp_path.iterdir(), key=lambda one: (len(one.name), one.name))
    assert [one.name for one in parts[:3]] == ["seen.kvtrace", "seen-2.kvtrace", "seen-3.kvtrace"]
    before: list[set[bytes]] | None = None
    numbers: list[int] = []
    for part in parts:
        assert not list(check(part))
        with TraceReader(part) as log:
            first = [op for op in log.record(0).ops if isinstance(op, KnownSince)]
            assert [op.reason for op in first] == ["attached" if before is None else "continued"]
            seen = [log.record(index).seen for index in range(len(log))]
            numbers += [one.sequence for one in seen if one is not None and one.sequence is not None]
            if before is not None:
                first_seen = next(i for i, one in enumerate(seen) if one and (one.sequence is not None or one.metrics))
                assert known_in(log, first_seen) == before
            before = known_in(log)
            assert log.num_bytes < 32 << 10
    assert before == cached
    assert sorted(numbers) == sorted([*range(MESSAGES)] * RANKS)  # every message once


def test_only_the_last_recorded_logs_are_kept(tmp_path: Path) -> None:
    observed, cached = watch(tmp_path / "seen.kvtrace", max_bytes=4 << 10, max_parts=2)
    assert len(list(tmp_path.iterdir())) == 2 and known_in(observed.log) == cached
    observed.log.close()


def test_on_next_is_called_with_each_new_log() -> None:
    header = header_of(model="m", source="vLLM", block_size=2, num_blocks=8, events=["tcp://a:1"])
    observed, logs = ObservedLog(header, max_bytes=2 << 10), list[TraceWriter]()
    first = observed.log
    observed.on_next(logs.append)
    observed.receive(0, Break("attached", 0))
    for number in range(40):
        observed.receive(0, Message(number, message(), False))
    assert logs and observed.log is logs[-1] and len(first)  # earlier logs are closed by the callback's owner
    for log in {first, *logs}:
        log.close()
