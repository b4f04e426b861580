"""Messages are delivered in order and every gap is reported, with drops, duplicates, replays and restarts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.observe.monitor.sequence import Break, Message, Sequence, SequenceEvent


class Model:
    """Publisher with restarts, seen through an unreliable connection."""

    def __init__(self, buffer: int) -> None:
        self.lives: list[list[bytes]] = [[]]
        self.buffer = buffer

    def publish(self) -> tuple[int, bytes]:
        life = self.lives[-1]
        life.append(f"{len(self.lives)}/{len(life)}".encode())
        return len(life) - 1, life[-1]

    def kept(self, first: int) -> list[tuple[int, bytes]]:
        life = self.lives[-1]
        return [(n, life[n]) for n in range(max(first, len(life) - self.buffer), len(life))]


def answer_all(model: Model, sequence: Sequence, received: list[SequenceEvent]) -> None:
    for _ in range(20):
        if sequence.replay_from is None:
            return
        first, sequence.replay_from = sequence.replay_from, None
        for number, payload in model.kept(first):
            sequence.add_replayed(number, payload)
        received += sequence.end_replay()
    raise AssertionError("it asks for ever")


def check(model: Model, received: list[SequenceEvent]) -> None:
    """Check that messages are consecutive within a lifetime, and that a break reports how many are missing."""
    due: int | None = None
    life: bytes | None = None
    for one in received:
        if isinstance(one, Break):
            if one.reason == "gap":
                assert due is not None and one.sequence - due == one.num_missed
            due, life = one.sequence, None  # after an unanswered gap it may be a restarted one
            continue
        assert one.sequence == due
        own = one.payload.split(b"/")[0]
        assert one.payload == model.lives[int(own) - 1][one.sequence]
        assert life in (None, own), "another life, and nothing said so"
        due, life = one.sequence + 1, own


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
            model.lives.append([])
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
    assert (end.sequence, end.payload) == (len(model.lives[-1]) - 1, model.lives[-1][-1])


@given(st.lists(st.sampled_from(["live", "drop", "double", "answer"]), max_size=60))
def test_with_a_buffer_that_is_long_enough_nothing_is_missing(actions: list[str]) -> None:
    model, sequence, received = Model(1000), Sequence(True), list[SequenceEvent]()
    for action in [*actions, "live", "answer"]:
        if action == "live":
            received += sequence.live(*model.publish())
        elif action == "drop":
            model.publish()
        elif action == "double" and model.lives[0]:
            number = len(model.lives[0]) - 1
            received += sequence.live(number, model.lives[0][number])
        else:
            answer_all(model, sequence, received)
    assert received[0] == Break("attached", 0)
    assert [one.payload for one in received[1:] if isinstance(one, Message)] == model.lives[0]
    assert len(received) == len(model.lives[0]) + 1


def test_large_replays_are_requested_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.observe.monitor.sequence.MAX_PENDING", 4)
    model, sequence, received = Model(1000), Sequence(True), list[SequenceEvent]()
    for _ in range(23):
        model.publish()
    answer_all(model, sequence, received)
    assert [one.payload for one in received[1:] if isinstance(one, Message)] == model.lives[0]
    assert len(received) == 24  # and nothing else but where it began
