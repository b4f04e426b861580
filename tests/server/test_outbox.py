"""Unsent messages are counted, per client and in total, and freed with them."""

import time

import pytest
from engineio.packet import MESSAGE, Packet

from app.ground.limits import Limits
from app.transport import outbox as outboxes
from app.transport.outbox import Outbox, UnsentBytes
from app.transport.pending_events import Client as PendingClient
from app.transport.pending_events import PendingEvents

LIMITS = Limits(client_bytes=100, all_bytes=250)


def outbox(unsent: UnsentBytes, given_up: list[str], name: str) -> Outbox:
    made = Outbox(unsent)
    made.web_socket = object()  # one packet at a time
    made.on_give_up = lambda: given_up.append(name)
    return made


def test_a_client_with_too_much_unsent_is_dropped() -> None:
    unsent, given_up = UnsentBytes(LIMITS), list[str]()
    slow = outbox(unsent, given_up, "slow")
    for _ in range(2):
        slow.put(Packet(MESSAGE, bytes(50)))
    assert (slow.size, unsent.total, given_up) == (100, 100, [])
    slow.put(Packet(MESSAGE, bytes(1)))
    slow.put(Packet(MESSAGE, bytes(7)))
    assert (slow.size, unsent.total, given_up) == (0, 0, ["slow"])


def test_bytes_being_sent_still_count() -> None:
    """The writer has 60 bytes and 40 wait, so 100 count until the writer fetches the next piece."""
    unsent = UnsentBytes(LIMITS)
    viewer = outbox(unsent, [], "viewer")
    viewer.put(Packet(MESSAGE, bytes(60)))
    viewer.put(Packet(MESSAGE, bytes(40)))
    viewer.get(timeout=1)
    assert viewer.size == unsent.total == 100
    viewer.get(timeout=1)
    assert viewer.size == unsent.total == 40
    viewer.close()
    assert viewer.size == unsent.total == 0


def test_a_batch_for_many_counts_once_for_all_and_in_full_for_each() -> None:
    unsent = UnsentBytes(LIMITS)
    viewers = [outbox(unsent, [], str(i)) for i in range(5)]
    packet = Packet(MESSAGE, bytes(80))
    for viewer in viewers:
        viewer.put(packet)
    assert [viewer.size for viewer in viewers] == [80] * 5 and unsent.total == 80
    for viewer in viewers:
        assert unsent.total == 80
        viewer.close()
    assert unsent.total == 0


def test_beyond_the_total_limit_the_client_with_the_most_is_disconnected() -> None:
    """The sum of 90 + 85 + 70 is 245; 10 more for the third make 255 of 250, and the first has the most."""
    unsent, given_up = UnsentBytes(LIMITS), list[str]()
    first, second, third = (outbox(unsent, given_up, name) for name in ("first", "second", "third"))
    for viewer, size in ((first, 90), (second, 60), (third, 70)):
        viewer.put(Packet(MESSAGE, bytes(size)))
    second.put(Packet(MESSAGE, bytes(25)))  # 245
    third.put(Packet(MESSAGE, bytes(10)))  # 255: the first has most
    assert given_up == ["first"] and unsent.total == 60 + 25 + 70 + 10


def test_unread_bytes_count_over_all_connections_of_a_guest() -> None:
    """Two connections with half of the limit each make further events of either busy; another guest's are not
    affected.
    """
    limits = Limits(busy_bytes=1000, events=4)
    pending, unsent, own = PendingEvents(limits), UnsentBytes(limits), set[PendingClient]()
    first, second = (PendingClient(Outbox(unsent), own) for _ in range(2))
    other = PendingClient(Outbox(unsent))
    for one in (first, second):
        one.outbox.put(Packet(MESSAGE, bytes(600)))
    assert pending.accept(first, 10) and pending.accept(second, 10) and not pending.accept(other, 10)
    first.outbox.close()
    assert [pending.accept(second, 10) for _ in range(4)] == [None] * 4
    assert "4 events" in (pending.accept(first, 10) or "")


def test_a_returning_guest_is_not_limited_by_its_abandoned_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A polling client ends without notice: its connection is dropped once it has not polled for a while."""
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    limits = Limits(busy_bytes=1000)
    pending, unsent, own, given_up = PendingEvents(limits), UnsentBytes(limits), set[PendingClient](), list[str]()
    lost, other = (PendingClient(outbox(unsent, given_up, name), own) for name in ("lost", "other"))
    lost.outbox.web_socket = None
    other.outbox.put(Packet(MESSAGE, bytes(300)))
    for _ in range(2):
        lost.outbox.put(Packet(MESSAGE, bytes(600)))
    lost.outbox.get(timeout=1)
    back = PendingClient(outbox(unsent, given_up, "back"), own)
    assert pending.accept(back, 10), "it may still poll"
    clock[0] += outboxes.POLL_GAP + 1
    assert pending.accept(back, 10) is None and given_up == ["lost"] and other.outbox.size == 300
