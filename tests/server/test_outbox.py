"""Unsent messages are counted, per client and in total, and freed with them."""

import time

import pytest
from engineio.packet import MESSAGE, Packet

from app.ground.limits import Limits
from app.transport import outbox as outboxes
from app.transport.intake import Client as Intaken
from app.transport.intake import Intake
from app.transport.outbox import Ledger, Outbox

LIMITS = Limits(client_bytes=100, all_bytes=250)


def outbox(ledger: Ledger, given_up: list[str], name: str) -> Outbox:
    made = Outbox(ledger)
    made.web_socket = object()  # one packet at a time
    made.on_give_up = lambda: given_up.append(name)
    return made


def test_a_client_with_too_much_unsent_is_dropped() -> None:
    ledger, given_up = Ledger(LIMITS), list[str]()
    slow = outbox(ledger, given_up, "slow")
    for _ in range(2):
        slow.put(Packet(MESSAGE, bytes(50)))
    assert (slow.size, ledger.total, given_up) == (100, 100, [])
    slow.put(Packet(MESSAGE, bytes(1)))
    slow.put(Packet(MESSAGE, bytes(7)))
    assert (slow.size, ledger.total, given_up) == (0, 0, ["slow"])


def test_bytes_being_sent_still_count() -> None:
    """The writer has 60 bytes and 40 wait, so 100 count until the writer fetches the next piece."""
    ledger = Ledger(LIMITS)
    viewer = outbox(ledger, [], "viewer")
    viewer.put(Packet(MESSAGE, bytes(60)))
    viewer.put(Packet(MESSAGE, bytes(40)))
    viewer.get(timeout=1)
    assert viewer.size == ledger.total == 100
    viewer.get(timeout=1)
    assert viewer.size == ledger.total == 40
    viewer.close()
    assert viewer.size == ledger.total == 0


def test_a_batch_for_many_counts_once_for_all_and_in_full_for_each() -> None:
    ledger = Ledger(LIMITS)
    viewers = [outbox(ledger, [], str(i)) for i in range(5)]
    packet = Packet(MESSAGE, bytes(80))
    for viewer in viewers:
        viewer.put(packet)
    assert [viewer.size for viewer in viewers] == [80] * 5 and ledger.total == 80
    for viewer in viewers:
        assert ledger.total == 80
        viewer.close()
    assert ledger.total == 0


def test_beyond_the_total_limit_the_client_with_the_most_is_disconnected() -> None:
    """The sum of 90 + 85 + 70 is 245; 10 more for the third make 255 of 250, and the first has the most."""
    ledger, given_up = Ledger(LIMITS), list[str]()
    first, second, third = (outbox(ledger, given_up, name) for name in ("first", "second", "third"))
    for viewer, size in ((first, 90), (second, 60), (third, 70)):
        viewer.put(Packet(MESSAGE, bytes(size)))
    second.put(Packet(MESSAGE, bytes(25)))  # 245
    third.put(Packet(MESSAGE, bytes(10)))  # 255: the first has most
    assert given_up == ["first"] and ledger.total == 60 + 25 + 70 + 10


def test_unread_bytes_count_over_all_connections_of_a_guest() -> None:
    """Two connections with half of the limit each make further events of either busy; another guest's are not
    affected.
    """
    limits = Limits(busy_bytes=1000, events=4)
    intake, ledger, own = Intake(limits), Ledger(limits), set[Intaken]()
    first, second = (Intaken(Outbox(ledger), own) for _ in range(2))
    other = Intaken(Outbox(ledger))
    for one in (first, second):
        one.outbox.put(Packet(MESSAGE, bytes(600)))
    assert intake.take(first, 10) and intake.take(second, 10) and not intake.take(other, 10)
    first.outbox.close()
    assert [intake.take(second, 10) for _ in range(4)] == [None] * 4
    assert "4 events" in (intake.take(first, 10) or "")


def test_a_returning_guest_is_not_limited_by_its_abandoned_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A polling client ends without notice: its connection is dropped once it has not polled for a while."""
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    limits = Limits(busy_bytes=1000)
    intake, ledger, own, given_up = Intake(limits), Ledger(limits), set[Intaken](), list[str]()
    lost, other = (Intaken(outbox(ledger, given_up, name), own) for name in ("lost", "other"))
    lost.outbox.web_socket = None
    other.outbox.put(Packet(MESSAGE, bytes(300)))
    for _ in range(2):
        lost.outbox.put(Packet(MESSAGE, bytes(600)))
    lost.outbox.get(timeout=1)
    back = Intaken(outbox(ledger, given_up, "back"), own)
    assert intake.take(back, 10), "it may still poll"
    clock[0] += outboxes.POLL_GAP + 1
    assert intake.take(back, 10) is None and given_up == ["lost"] and other.outbox.size == 300
