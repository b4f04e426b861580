"""Endpoints called as plain functions: no server, no socket, no application."""

import json
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Request, Response
from werkzeug.test import EnvironBuilder

from app.bench import page as bench_page
from app.ground.errors import AppError
from app.ground.settings import ServerSettings
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.recordings import endpoints
from app.server import api, api_models, events
from app.server.lesson_events import LESSON_EVENTS
from app.session.messages import Message
from engine.bench.code import code_of_a_step
from engine.trace import codec
from engine.trace.records import Memory, StepRecord, Timing
from tests.server.fake import FakeModel

EMPTY = Memory(
    num_blocks=4, block_size=4, blocks_held=0, blocks_cached=0, blocks_free=4, tokens_held=0, tokens_logical=0,
    bytes_held=0, bytes_used=0, bytes_cached=0,
)  # fmt: skip


def request_of(path: str, **more: Any) -> Request:
    return Request(EnvironBuilder(path, **more).get_environ())


class Run:
    """Run of three records without captures."""

    epoch = 2

    def __len__(self) -> int:
        return 3

    @contextmanager
    def reading(self):
        yield self

    def record_bytes(self, index: int) -> bytes:
        record = StepRecord(index=index, kind="step", step=index, timing=Timing(at=0.5), memory=EMPTY)
        return codec.encode(record)

    def capture_bytes(self, index: int) -> bytes | None:
        return None


def here(**given: Any) -> api.ApiContext:
    theaters = SimpleNamespace(watch=lambda session_id: SimpleNamespace(run=Run()), all=list)
    usual = {
        "sessions": theaters,
        "models": Models(ModelEntry(None)),
        "comparisons": None,
        "questions": None,
        "what_ifs": None,
    }
    return api.ApiContext(**{**usual, **given})


def value(response: Response) -> Any:
    return json.loads(response.get_data())


def test_a_record_in_both_forms_with_its_epoch():
    answer = api.record(here(), request_of("/?format=json&epoch=2"), "t", 1)
    assert value(answer)["index"] == 1 and answer.headers["X-Epoch"] == "2"
    packed = api.record(here(), request_of("/"), "t", 2)
    assert codec.decode(packed.get_data(), StepRecord).index == 2 and packed.mimetype == "application/msgpack"


@pytest.mark.parametrize(
    ("path", "index", "message"),
    [
        ("/", 3, "there is no record 3; the log has 3"),
        ("/", -1, "there is no record -1"),
        ("/?format=xml", 0, "format is msgpack or json, not 'xml'"),
        ("/?epoch=1", 0, "the session is at epoch 2, not 1"),
    ],
)
def test_invalid_record_requests_are_refused(path: str, index: int, message: str):
    with pytest.raises(AppError, match=message):
        api.record(here(), request_of(path), "t", index)


def test_without_a_model():
    theaters: Any = SimpleNamespace(all=list, shows=lambda theater_id: False)
    without, live = [
        api_models.ModelsContext(theaters, Models(ModelEntry(model)), ServerSettings(), None)
        for model in (None, FakeModel())
    ]
    facts = value(api_models.model_facts(without, request_of("/")))
    assert facts["live"] is False and facts["model"] is None and facts["config"]["strategy"] == "paged"
    with pytest.raises(AppError, match="there is no live model here"):
        api_models.machine(without, request_of("/"))
    assert value(api_models.models(without, request_of("/")))["models"] == []
    assert value(api_models.model_facts(live, request_of("/")))["live"] is True


def test_an_upload_that_is_too_large_is_refused_before_it_is_read():
    nothing: Any = None
    room = endpoints.RecordingsContext(nothing, nothing, ServerSettings(max_recording_bytes=10))
    with pytest.raises(AppError, match="this server takes recordings of up to 0 MiB"):
        endpoints.upload(room, request_of("/", method="POST", data=b"x" * 11))


def test_the_list_of_benchmarks():
    records = SimpleNamespace(scenarios=lambda: [{"id": "a"}], all=list)
    runs = SimpleNamespace(can_run=True, keeps_records=False)
    answer = value(bench_page.index(bench_page.BenchContext(records, runs), request_of("/")))  # type: ignore[arg-type]
    assert answer == {
        "scenarios": [{"id": "a"}],
        "records": [],
        "can_run": True,
        "keeps_records": False,
        "code": code_of_a_step(),
    }


def test_every_event_has_a_message_and_a_method_of_its_name():
    for name, event in (events.EVENTS | LESSON_EVENTS).items():
        assert issubclass(event.message, Message) and event.handle.__name__ == name
