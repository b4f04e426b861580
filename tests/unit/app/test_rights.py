"""Each socket event names its right in the table that registers it, and handlers check none themselves."""

import inspect
import re
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from app.classroom import rights
from app.classroom.access import Access
from app.classroom.classrooms import Classrooms
from app.ground.callers import ANONYMOUS, Person
from app.ground.errors import AppError
from app.server.dispatch import ALL_EVENTS
from app.server.events import EVENTS
from app.server.lesson_events import LESSON_EVENTS
from app.session.messages import Message

FOR_ANYONE = {"leave", "tokenize"}
RIGHTS = {right for _, right in inspect.getmembers(rights, inspect.isfunction) if right.__module__ == rights.__name__}
CHECK = re.compile(r"_access\.(own|watch|presents|seat|pass_of)\(")


@pytest.fixture(name="classrooms")
def open_class() -> Iterator[Classrooms]:
    classroom = Classrooms(lambda *_: None)
    yield classroom
    classroom.close()


def test_a_connection_without_a_right_is_refused(classrooms: Classrooms) -> None:
    access = Access(classrooms)
    access.add("sid", ANONYMOUS)
    message = SimpleNamespace(session="theater", id=classrooms.open("", "optional").id)
    for name, event in ALL_EVENTS.items():
        assert event.right in RIGHTS
        if event.right is rights.anyone:
            assert name in FOR_ANYONE
            continue
        with pytest.raises(AppError) as refused:
            event.right(access, "sid", message)
        assert refused.value.code == "forbidden"


def test_every_right_is_used_by_an_event() -> None:
    assert {event.right for event in ALL_EVENTS.values()} == RIGHTS


def test_handlers_check_no_rights_themselves() -> None:
    for name in ALL_EVENTS:
        assert not CHECK.search(inspect.getsource(ALL_EVENTS[name].handle))


def test_any_owner_may_control_a_class_without_a_presenter(classrooms: Classrooms) -> None:
    access, classroom = Access(classrooms), classrooms.open("", "optional")
    message = SimpleNamespace(id=classroom.id)
    access.add("owner", Person(is_owner=True, seat=None))
    assert rights.presenter_or_heir(access, "owner", message) == (classroom,)
    classroom.present("presenter")
    with pytest.raises(AppError, match="presenter"):
        rights.presenter_or_heir(access, "owner", message)


def test_every_event_has_a_message_type_and_a_method_named_like_it() -> None:
    for name, event in (EVENTS | LESSON_EVENTS).items():
        assert issubclass(event.message, Message) and event.handle.__name__ == name
