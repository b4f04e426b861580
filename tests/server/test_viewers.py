"""Every viewer gets every record in order, as the bytes of the file, at its own pace."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import pytest
import requests

from app.session.answers import Status
from app.session.broadcast import Broadcast, Emit
from app.session.closing import Closing
from app.session.messages import SubmittedPrompt
from app.session.run import Run
from engine.config import EngineConfig, SamplingParams
from engine.trace.log import TraceReader
from tests.server.conftest import Client, wait_for
from tests.server.fake import FakeModel


def grow(client: Client, theater: str, tokens: int) -> int:
    """Submit one prompt and compute all of it; return the number of records."""
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": tokens})
    return int(client.do("step", theater=theater, count=tokens)["num_records"])


def arrived(viewer: Client, count: int) -> None:
    wait_for(lambda: len(viewer.records()) == count, "the arrival of all records")


def noting(viewer: Client, word: str) -> Callable[[Any], None]:
    """Return a callback that notes the position of its call among received messages."""
    return lambda _: viewer.log.append(word)


def test_every_viewer_gets_the_bytes_of_the_file(server, client, theater, tmp_path):
    others = [server.client(), server.client(transports=["polling"])]
    for other in others:
        other.do("join", theater=theater, captures=False)
    count = grow(client, theater, 100)
    for viewer in (client, *others):
        arrived(viewer, count)
    (tmp_path / "t").write_bytes(requests.get(f"{server.url}/api/theaters/{theater}/trace").content)
    with TraceReader(tmp_path / "t") as reader:
        assert reader.damage is None and len(reader) == count
        for viewer in (client, *others):
            assert viewer.records() == [reader.record_bytes(i) for i in range(count)]
        seen = [c for b in client.batches for c in b["captures"]]
        assert all(c in (None, reader.capture_bytes(i)) for i, c in enumerate(seen))
        assert any(seen) and seen[-1] == reader.capture_bytes(count - 1)
    assert not any(c for b in others[0].batches for c in b["captures"])


def test_a_late_joiner_gets_everything(server, client, theater):
    count = grow(client, theater, 300)  # more than one batch
    late = server.client()
    joined = late.do("join", theater=theater)
    assert joined["num_records"] == count
    wait_for(lambda: len(late.records()) == count)
    wait_for(lambda: len(client.records()) == count)
    assert late.records() == client.records()
    with_captures = [b["first"] + i for b in late.batches for i, c in enumerate(b["captures"]) if c]
    assert with_captures and min(with_captures) >= count - 16  # far behind: captures of the newest only


def test_the_acknowledgement_of_a_join_comes_before_the_records(server, client, theater):
    grow(client, theater, 5)
    for _ in range(20):
        late = server.client()
        late.io.emit("join", {"theater": theater}, callback=noting(late, "joined"))
        arrived(late, 6)
        assert late.log[0] == "joined"


def test_a_reconnecting_viewer_continues_at_its_record(server, client, theater):
    first = server.client()
    first.do("join", theater=theater)
    grow(client, theater, 5)
    wait_for(lambda: len(first.records()) == 6)
    first.io.disconnect()
    count = grow(client, theater, 5)
    again = server.client()
    assert again.do("join", theater=theater, **{"from": 6}, epoch=0)["from"] == 6
    wait_for(lambda: len(again.records()) == count - 6)
    assert again.batches[0]["first"] == 6
    wait_for(lambda: len(client.records()) == count)
    assert first.records() + again.records() == client.records()


def test_a_viewer_of_an_older_epoch_starts_from_the_beginning(server, client, theater):
    grow(client, theater, 5)
    client.do("reset", theater=theater)
    count = grow(client, theater, 3)
    late = server.client()
    assert late.do("join", theater=theater, **{"from": 4}, epoch=0)["from"] == 0
    wait_for(lambda: len(late.records(epoch=1)) == count)


SAYS_NOTHING: Status = {
    "theater": "theater",
    "epoch": 0,
    "mode": "paused",
    "speed": 0.0,
    "num_records": 0,
    "unfinished": 0,
    "coming": [],
    "api": None,
    "viewers": 0,
    "error": None,
    "said": {},
    "objection": None,
    "notice": None,
    "fork": None,
    "recording": None,
}


class Round:
    """Broadcast of a run of two records, and one viewer's messages: `joined`, and the first index of each batch."""

    def __init__(self) -> None:
        self.engine = FakeModel().build(EngineConfig(block_size=4, num_blocks=8), None)
        self.engine.submit([SubmittedPrompt(text="abc")], SamplingParams(max_tokens=4))
        self.run = Run(0, self.engine)
        self.heard: list[Any] = []
        self.sizes: list[int] = []  # bytes of each batch
        self.asked: list[Callable[[], None]] = []  # the acknowledgements that the viewer has not given yet
        self.looked: Callable[[], None] = lambda: None  # called in a round, before records are sent
        self.broadcast = Broadcast("theater", self._emit, self._status)
        self.broadcast.follow(self.run)

    def join(self, first: int, seconds: float = 0) -> None:
        """Join as a handler does whose acknowledgement takes `seconds`."""

        begin = self.broadcast.join("viewer", self.run, first, False)
        time.sleep(seconds)
        self.heard.append("joined")
        begin()

    def close(self) -> None:
        self.broadcast.close(Closing("over"))
        self.run.retire()

    def _status(self) -> Status:
        self.looked()
        return SAYS_NOTHING

    def _emit(
        self,
        event: str,
        data: Mapping[str, Any],
        sids: Sequence[str],
        acknowledged: Callable[[str], None] | None = None,
        sent: Callable[[float], None] | None = None,
    ) -> None:
        if event == "records":
            assert list(sids) == ["viewer"]
            self.heard.append(data["first"])
            self.sizes.append(sum(map(len, data["records"])))
            if acknowledged:
                self.asked.append(lambda: acknowledged("viewer"))


@pytest.fixture
def one_round() -> Iterator[Round]:
    found = Round()
    yield found
    found.close()


def test_records_wait_for_the_acknowledgement_of_a_join_however_long_that_takes(one_round: Round) -> None:
    one_round.join(0, seconds=0.8)
    wait_for(lambda: 0 in one_round.heard)
    assert one_round.heard == ["joined", 0]


def test_rejoining_during_a_round_discards_the_earlier_position(one_round: Round) -> None:
    """A viewer rejoins after the round has read the list of viewers: its next records are the first ones."""

    def look() -> None:
        if len(one_round.run.log) == 2 and one_round.heard == ["joined"]:
            one_round.join(0)

    one_round.looked = look
    one_round.join(1)
    one_round.engine.step()
    one_round.broadcast.wake()
    wait_for(lambda: one_round.heard.count("joined") == 2 and one_round.heard[-1] != "joined")
    assert one_round.heard == ["joined", "joined", 0]


def test_viewers_at_the_same_record_are_sent_one_message(one_round: Round) -> None:
    """Three viewers are at record 0 and one at record 1: two messages, not four."""
    sent: list[tuple[int, list[str]]] = []

    def emit(event: str, data: dict[str, Any], sids: Sequence[str], *_: Any, **__: Any) -> None:
        if event == "records":
            sent.append((data["first"], sorted(sids)))

    one_round.engine.step()
    broadcast = Broadcast("theater", cast(Emit, emit), lambda: SAYS_NOTHING)
    begin = [broadcast.join(sid, one_round.run, int(sid == "d"), False) for sid in "abcd"]
    for viewer in begin:
        viewer()
    broadcast.follow(one_round.run)
    wait_for(lambda: len(sent) == 2)
    assert sorted(sent) == [(0, ["a", "b", "c"]), (1, ["d"])]
    broadcast.close(Closing("over"))


def test_unacknowledged_bytes_are_bounded(one_round: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    """No further batch is sent before an acknowledgement, with a window of 1000 bytes."""
    monkeypatch.setattr("app.session.broadcast.WINDOW", 1000)
    monkeypatch.setattr("app.session.broadcast.ACK_BYTES", 250)
    monkeypatch.setattr("app.session.broadcast.MAX_RECORDS", 1)
    monkeypatch.setattr("app.session.broadcast.PACE", 0.0)
    for _ in range(4):
        one_round.engine.step()  # five records, each of more than 250 bytes and fewer than 1000
    one_round.engine.submit([SubmittedPrompt(text="abc")], SamplingParams(max_tokens=4))
    assert all(250 < len(one_round.run.log.record_bytes(i)) < 1000 for i in range(6))
    one_round.join(0)
    wait_for(lambda: sum(one_round.sizes) >= 1000)
    time.sleep(0.2)
    assert sum(one_round.sizes[:-1]) < 1000 <= sum(one_round.sizes), "it stops at the first that passes the bound"
    assert len(one_round.sizes) < 6 and len(one_round.asked) == len(one_round.sizes)
    held = len(one_round.sizes)
    one_round.asked[-1]()  # which says that it has everything before, too
    wait_for(lambda: sum(one_round.sizes[held:]) >= 1000)
    one_round.asked[-1]()
    wait_for(lambda: one_round.heard == ["joined", 0, 1, 2, 3, 4, 5])


def test_a_slow_viewer_delays_no_other_viewer(server, client, theater, monkeypatch):
    for bound in ("WINDOW", "ACK_BYTES"):
        monkeypatch.setattr(f"app.session.broadcast.{bound}", 1)  # a byte: each batch is waited for
    slow = server.client()
    slow.do("join", theater=theater)
    slow.hold.clear()  # it gets one batch and does not acknowledge it
    count = grow(client, theater, 400)
    wait_for(lambda: len(client.records()) == count, seconds=60)
    time.sleep(0.2)
    assert len(slow.batches) == 1, "the other has everything, and this one still holds its first"
    slow.hold.set()
    wait_for(lambda: len(slow.records()) == count)
    assert slow.records() == client.records()


def test_the_status_says_how_many_watch(server, client, theater):
    other = server.client()
    other.do("join", theater=theater)
    wait_for(lambda: client.statuses and client.statuses[-1]["viewers"] == 2)
    other.io.disconnect()
    wait_for(lambda: client.statuses[-1]["viewers"] == 1)
    client.do("leave", theater=theater)
    before = len(client.batches)
    grow(client, theater, 3)
    time.sleep(0.1)
    assert len(client.batches) == before


def test_one_client_may_watch_two_theaters(client, theater):
    second = client.do("create", config={"strategy": "none"})["theater"]
    grow(client, theater, 3)
    grow(client, second, 5)
    wait_for(lambda: sum(len(b["records"]) for b in client.batches) == 4 + 6)
    assert {b["theater"] for b in client.batches} == {theater, second}


def test_a_download_is_valid_while_the_log_grows(server, client, theater, tmp_path):
    client.do("submit", theater=theater, prompts=[{"text": "abc"}], sampling={"max_tokens": 200})
    client.do("run", theater=theater, speed=0)
    for i in range(10):
        path = tmp_path / f"{i}.kvtrace"
        path.write_bytes(requests.get(f"{server.url}/api/theaters/{theater}/trace").content)
        with TraceReader(path) as reader:
            assert reader.damage is None
            if len(reader):
                record = reader.record(len(reader) - 1)
                assert record.has_capture == (reader.capture_bytes(record.index) is not None)
