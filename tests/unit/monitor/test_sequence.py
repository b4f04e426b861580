"""Order of messages and reports of gaps, with drops, duplicates, replays and restarts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.observe.monitor.sequence import Break, Message, Sequence, SequenceEvent


class Model:
    """Model of a publisher with restarts."""

    def __init__(self, buffer: int) -> None:
        self.runs: list[list[bytes]] = [[]]
        self.buffer = buffer

    def publish(self) -> tuple[int, bytes]:
        run = self.runs[-1]
        run.append(f"{len(self.runs)}/{len(run)}".encode())
        return len(run) - 1, run[-1]

    def buffered(self, first: int) -> list[tuple[int, bytes]]:
        run = self.runs[-1]
        return [(n, run[n]) for n in range(max(first, len(run) - self.buffer), len(run))]


def answer_all(model: Model, sequence: Sequence, received: list[SequenceEvent]) -> None:
    for _ in range(20):
        if sequence.replay_from is None:
            return
        first, sequence.replay_from = sequence.replay_from, None
        for number, payload in model.buffered(first):
            sequence.add_replayed(number, payload)
        received += sequence.end_replay()
    raise AssertionError("replay requests do not end")


def check(model: Model, received: list[SequenceEvent]) -> None:
    """Check that messages of a run are consecutive, and that breaks report the number of missing ones."""
    expected: int | None = None
    run: bytes | None = None
    for one in received:
        if isinstance(one, Break):
            if one.reason == "gap":
                assert expected is not None and one.sequence - expected == one.num_missed
            expected, run = one.sequence, None  # after an unanswered gap the publisher may have restarted
            continue
        assert one.sequence == expected
        own = one.payload.split(b"/")[0]
        assert one.payload == model.runs[int(own) - 1][one.sequence]
        assert run in (None, own), "a restart without a break"
        expected, run = one.sequence + 1, own


Action = st.sampled_from(["live", "live", "live", "drop", "double", "cut", "restart", "answer", "silence"])


@settings(max_examples=400)
@given(st.lists(Action, max_size=60), st.sampled_from([1000, 3]), st.booleans())
def test_messages_are_in_order_and_gaps_are_reported(actions: list[str], buffer: int, can_replay: bool) -> None:
    model, sequence, received = Model(buffer), Sequence(can_replay), list[SequenceEvent]()
    last: tuple[int, bytes] | None = None
    for action in actions:
        if action == "live":
            last = model.publish()
            received += sequence.live(*last)
        elif action == "drop":
            model.publish()
        elif action == "double" and last is not None:
            received += sequence.live(*last)
        elif action == "cut":
            sequence.disconnected()
            model.publish()
            sequence.reconnected()
        elif action == "restart":
            sequence.disconnected()
            model.runs.append([])
            last = None
            sequence.reconnected()
        elif action == "answer":
            answer_all(model, sequence, received)
        elif action == "silence" and sequence.is_replaying:
            sequence.replay_from = None
            received += sequence.abort_replay()
    for _ in range(2):
        received += sequence.live(*model.publish())
        answer_all(model, sequence, received)
    check(model, received)
    end = [one for one in received if isinstance(one, Message)][-1]
    assert (end.sequence, end.payload) == (len(model.runs[-1]) - 1, model.runs[-1][-1])


@given(st.lists(st.sampled_from(["live", "drop", "double", "answer"]), max_size=60))
def test_no_message_is_missing_with_a_long_enough_buffer(actions: list[str]) -> None:
    model, sequence, received = Model(1000), Sequence(True), list[SequenceEvent]()
    for action in [*actions, "live", "answer"]:
        if action == "live":
            received += sequence.live(*model.publish())
        elif action == "drop":
            model.publish()
        elif action == "double" and model.runs[0]:
            number = len(model.runs[0]) - 1
            received += sequence.live(number, model.runs[0][number])
        else:
            answer_all(model, sequence, received)
    assert received[0] == Break("attached", 0)
    assert [one.payload for one in received[1:] if isinstance(one, Message)] == model.runs[0]
    assert len(received) == len(model.runs[0]) + 1


def test_large_replays_are_requested_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.observe.monitor.sequence.MAX_PENDING", 4)
    model, sequence, received = Model(1000), Sequence(True), list[SequenceEvent]()
    for _ in range(23):
        model.publish()
    answer_all(model, sequence, received)
    assert [one.payload for one in received[1:] if isinstance(one, Message)] == model.runs[0]
    assert len(received) == 24  # with the break at the beginning
