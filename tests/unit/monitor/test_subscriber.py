"""Monitoring over real sockets: gaps, replays, restarts, ranks, and late subscribers."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.observe.monitor.attachment import AttachError, Attaching, Attachment
from engine.observe.monitor.subscriber import rank_endpoint
from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.operations import KnownSince, Removed, Stored
from tests.unit.monitor.publisher import Publisher, Shape, message, removed, stored
from tests.unit.monitor.waiting import wait_for

SIZE, POOL = 4, 32  # tokens, blocks


@contextmanager
def attached(*publishers: Publisher, path: Path | None = None, replay: bool = True) -> Iterator[Attachment]:
    first = publishers[0]
    options = Attaching(
        events=first.events,
        replay=first.replay if replay else None,
        ranks=tuple(range(len(publishers))),
        block_size=SIZE,
        num_blocks=POOL,
    )
    attachment = Attachment(options, path)
    attachment.start()
    try:
        yield attachment
    finally:
        attachment.close()
        attachment.log.close()


class Server:
    """Server that stores and removes blocks at random, with the contents after each message."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.has: set[bytes] = set()
        self.after: list[set[bytes]] = []  # by message number
        self._next = 0

    def step(self) -> bytes:
        events: list[Any] = []
        for _ in range(self._random.randint(1, 3)):
            if len(self.has) > POOL - 4 or (self.has and self._random.random() < 0.3):
                evicted = self._random.choice(sorted(self.has))
                self.has.remove(evicted)
                events.append(removed([evicted]))
            else:
                new = [(self._next + i).to_bytes(8, "big") for i in range(self._random.randint(1, 3))]
                self._next += len(new)
                self.has |= set(new)
                events.append(stored(new, list(range(SIZE * len(new))), SIZE))
        self.after.append(set(self.has))
        return message(*events)


def contents_of(log: TraceReader, instance: int = 0) -> list[tuple[int, int, set[bytes]]]:
    """Return epoch, message number and cached contents after each message, from the log's operations alone."""
    where: dict[tuple[bool, int], bytes] = {}
    found, epoch = [], 0
    for index in range(len(log)):
        record = log.record(index)
        if record.instance != instance or record.seen is None:
            continue
        for op in record.ops:
            if isinstance(op, KnownSince):
                where.clear()
                epoch = op.epoch
            elif isinstance(op, Stored):
                where[op.outside, op.place] = op.block_hash
            elif isinstance(op, Removed):
                assert where.pop((op.outside, op.place)) == op.block_hash
        if record.seen.sequence is not None:
            found.append((epoch, record.seen.sequence, set(where.values())))
    return found


def breaks_of(log: TraceReader) -> list[tuple[str, int, int]]:
    ops = [op for index in range(len(log)) for op in log.record(index).ops if isinstance(op, KnownSince)]
    return [(op.reason, op.sequence, op.num_missed) for op in ops]


@pytest.mark.parametrize("shape", ["pair", "topic"])
def test_dropped_messages_are_replayed(shape: Shape, tmp_path: Path) -> None:
    server, path = Server(1), tmp_path / "run.kvtrace"
    with Publisher(shape=shape) as publisher:
        publisher.withheld = {3, 4, 11}
        publisher.publish(server.step())
        with attached(publisher, path=path) as attachment:
            wait_for(lambda: len(attachment.log) > 1)
            for _ in range(40):
                publisher.publish(server.step())
            wait_for(lambda: attachment.log.record(len(attachment.log) - 1).seen.sequence == 40)  # type: ignore[union-attr]
            assert breaks_of(attachment.log) == [("attached", 0, 0)]
            assert contents_of(attachment.log) == [(0, n, server.after[n]) for n in range(41)]
            seen = [attachment.log.record(index).seen for index in range(len(attachment.log))]
            assert [one.sequence for one in seen if one and one.replayed][:3] == [0, 3, 4]
    findings = list(check(path))
    assert not findings, findings


def test_a_late_subscriber_replays_the_buffer() -> None:
    with Publisher(buffer=2) as publisher:
        publisher.publish(message(stored([b"a", b"b"], list(range(8)), SIZE)))
        publisher.publish(message(stored([b"c"], [1, 2, 3, 4], SIZE, b"b")))
        publisher.publish(message(removed([b"a"])))
        with attached(publisher) as attachment:
            wait_for(lambda: len(attachment.log) == 3)
            assert breaks_of(attachment.log) == [("attached", 1, 0)]
            assert contents_of(attachment.log) == [(0, 1, {b"c"}), (0, 2, {b"c"})]
            last = attachment.log.record(2).seen
            assert last is not None and last.num_unmatched == 1  # "a" was stored before the first replayed message


def test_without_replay_missed_messages_are_a_gap() -> None:
    with Publisher() as publisher, attached(publisher, replay=False) as attachment:
        publisher.withheld = {5, 6}
        wait_for(lambda: publisher.publish(message(stored([b"x"], [1] * SIZE, SIZE))) > 8 and len(attachment.log) > 3)
        names = breaks_of(attachment.log)
        assert names[0][0] == "attached" and names[0][1] <= 5 and names[-1] == ("gap", 7, 2)


def test_an_unanswered_replay_request_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.observe.monitor.subscriber.REPLY_SECONDS", 0.2)
    with Publisher() as publisher, attached(publisher) as attachment:
        publisher.publish(message(removed([])))
        wait_for(lambda: len(attachment.log) == 2)
        publisher.silent, publisher.withheld = True, {1}
        for _ in range(2):
            publisher.publish(message(removed([])))
        wait_for(lambda: len(attachment.log) == 4)
        assert breaks_of(attachment.log) == [("attached", 0, 0), ("gap", 2, 1)]


def test_a_restart_is_detected_even_after_more_messages_than_before() -> None:
    first, second = Server(2), Server(3)
    publisher = Publisher()
    with attached(publisher) as attachment:
        for _ in range(5):
            publisher.publish(first.step())
        wait_for(lambda: len(attachment.log) == 6)
        ports = publisher.ports
        publisher.close()
        with Publisher(ports) as second_publisher:
            for _ in range(9):  # before the subscriber reconnects
                second_publisher.publish(second.step())
            wait_for(lambda: len(attachment.log) >= 16)
            second_publisher.publish(second.step())
            wait_for(lambda: len(attachment.log) == 17)
            assert breaks_of(attachment.log) == [("attached", 0, 0), ("restarted", 0, 0)]
            expected = [(0, n, first.after[n]) for n in range(5)] + [(1, n, second.after[n]) for n in range(10)]
            assert contents_of(attachment.log) == expected


def test_each_rank_has_its_own_message_numbers_and_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = [Server(4), Server(5)]
    with Publisher() as first, Publisher() as second:
        ports = {first.events: second.events, first.replay: second.replay}
        monkeypatch.setattr(
            "engine.observe.monitor.attachment.rank_endpoint",
            lambda endpoint, rank: ports[endpoint] if rank else endpoint,
        )
        with attached(first, second) as attachment:
            for _ in range(12):
                for server, publisher in zip(servers, (first, second), strict=True):
                    publisher.publish(server.step())
            wait_for(lambda: len(attachment.log) == 26)
            for rank, server in enumerate(servers):
                assert contents_of(attachment.log, rank) == [(0, n, server.after[n]) for n in range(12)]
            state = attachment.log.state_at(25)
            for rank, server in enumerate(servers):
                pool = state.blocks[rank * POOL : (rank + 1) * POOL]
                assert {block.block_hash for block in pool} - {None} == server.has


def test_equal_hashes_of_other_media_and_groups_are_other_contents() -> None:
    with Publisher() as publisher, attached(publisher) as attachment:
        one = stored([b"a"], [1, 2, 3, 4], SIZE)
        publisher.publish(
            message(one, {**one, "group_idx": 1}, {**one, "medium": "cpu", "token_ids": []}, {**one, "medium": "FS"})
        )
        publisher.publish(message(removed([b"a"], medium="CPU"), one))
        wait_for(lambda: len(attachment.log) == 3)
        assert attachment.observed.known(0).keys == {("GPU", "", 0, b"a"), ("GPU", "", 1, b"a"), ("FS", "", 0, b"a")}
        state = attachment.log.state_at(2)
        assert [block.token_ids for block in state.blocks if block.block_hash] == [[1, 2, 3, 4]] * 2
        assert [(block.medium, block.block_hash) for block in state.outside] == [("", None), ("FS", b"a")]
        last = attachment.log.record(2).ops[-1]
        assert isinstance(last, Stored) and last.again  # stored again without a change


def test_an_undecodable_message_is_a_gap_with_its_reason() -> None:
    with Publisher() as publisher, attached(publisher) as attachment:
        publisher.publish(message(stored([b"a"], [1] * SIZE, SIZE)))
        publisher.publish(msgspec.msgpack.encode("nonsense"))
        wait_for(lambda: len(attachment.log) == 3)
        record = attachment.log.record(2)
        assert record.seen is not None and "neither a map nor an array" in record.seen.problem
        assert breaks_of(attachment.log)[-1] == ("gap", 2, 1) and not attachment.observed.known(0).keys


def test_contents_over_the_pool_are_reported_and_dropped() -> None:
    with Publisher() as publisher, attached(publisher) as attachment:
        hashes = [bytes([i]) for i in range(POOL + 2)]
        publisher.publish(message(stored(hashes, [0] * (SIZE * len(hashes)), SIZE)))
        wait_for(lambda: len(attachment.log) == 2)
        seen = attachment.log.record(1).seen
        assert seen is not None and seen.problem.startswith("2 contents had no place")


def test_a_server_of_unknown_size_is_refused_in_one_sentence() -> None:
    with pytest.raises(AttachError, match="give --metrics"):
        Attachment(Attaching(events="tcp://127.0.0.1:1"))
    with pytest.raises(AttachError, match="no metrics from"):
        Attachment(Attaching(events="tcp://127.0.0.1:1", metrics="http://127.0.0.1:1/metrics", wait=0))
    with pytest.raises(AttachError, match="not a valid address of events"):
        Attachment(Attaching(events="nowhere", block_size=4, num_blocks=4))


def test_rank_endpoint_adds_the_rank_to_the_port() -> None:
    assert rank_endpoint("tcp://10.0.0.1:5557", 3) == "tcp://10.0.0.1:5560"
    assert rank_endpoint("ipc:///tmp/events", 0) == "ipc:///tmp/events"
