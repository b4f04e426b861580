"""Questions over a run's log, from the page."""

import threading
from typing import Any

import pytest
import requests

import app.log_index.questions
from app.ground.errors import AppError
from app.log_index.derived_files import LogTables
from app.log_index.questions import LogQuestions, saved_questions
from app.session.run import OpenLog
from engine.trace.log import TraceReader
from tests.browser.recording import GOLDEN
from tests.server.conftest import wait_for

COUNT = "SELECT count(*) AS n FROM steps"


def ask(server, sql: str, theater: str = "rec-moon") -> requests.Response:
    return requests.get(f"{server.url}/api/theaters/{theater}/query", params={"sql": sql}, timeout=60)


def test_every_saved_question_is_answered(server):
    found = requests.get(f"{server.url}/api/questions", timeout=20).json()["questions"]
    assert [one["id"] for one in found] == [one["id"] for one in saved_questions()["questions"]] and len(found) >= 8
    for one in found:
        if one["observed"]:
            continue
        answer = ask(server, one["sql"])
        assert answer.status_code == 200 and answer.json()["columns"], one["id"]
    answer = ask(server, COUNT)
    assert answer.json()["rows"] == [[answer.json()["num_records"]]] and answer.headers["Cache-Control"] == "no-store"


def test_invalid_queries_are_refused(server):
    for sql, says in (("DROP TABLE steps", "read-only"), ("", "SELECT"), ("SELECT absent FROM steps", "absent")):
        answer = ask(server, sql)
        assert answer.status_code == 422 and says in answer.json()["error"]["message"]
    assert ask(server, COUNT, "nobody").status_code == 404


def test_queries_run_one_at_a_time_and_tables_are_cached():
    run, questions = OpenLog(0, TraceReader(GOLDEN)), LogQuestions(LogTables(None))
    refused: list[str] = []
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"

    def long() -> None:
        with pytest.raises(AppError) as found:
            questions.answer(run, endless)
        refused.append(found.value.message)

    first = questions.answer(run, COUNT)
    database = questions._held
    thread = threading.Thread(target=long)
    thread.start()
    wait_for(questions._lock.locked, "the first")
    with pytest.raises(AppError, match="another question is being answered"):
        questions.answer(run, COUNT)
    thread.join()
    assert (
        refused == ["the answer took longer than 5 s; read or join fewer rows"]
        and questions.answer(run, COUNT) == first
        and questions._held is database
    )


def test_queries_exclude_held_back_records():
    """A lesson's records that answer an open question are held back, also if all of them were read before."""
    run, questions = OpenLog(0, TraceReader(GOLDEN)), LogQuestions(LogTables(None))
    whole = questions.answer(run, COUNT)["num_records"]
    run.hold_back(whole - 3)
    assert questions.answer(run, COUNT)["rows"] == [[whole - 3]]


def test_tables_of_a_long_log_are_built_once(make_server, tmp_path, monkeypatch):
    """A separate process builds them; damaged ones are rebuilt, and a second server reuses those of the first."""
    monkeypatch.setattr(app.log_index.questions, "MIN_CACHED_BYTES", 0)

    def answered(server) -> dict[str, Any]:
        def is_there() -> bool:
            answer = ask(server, COUNT)
            assert answer.ok or answer.json()["error"]["code"] in ("loading", "busy"), answer.text
            return answer.ok

        wait_for(is_there, "the tables", 60)
        answer: dict[str, Any] = ask(server, COUNT).json()
        return answer

    first = make_server(data_dir=tmp_path)
    found = answered(first)
    assert found["rows"] == [[found["num_records"]]]
    assert ask(first, "DELETE FROM steps").status_code == 422
    [data] = tmp_path.glob("surveys/*.sqlite")
    made = data.stat().st_ino
    assert answered(make_server(data_dir=tmp_path)) == found and data.stat().st_ino == made
    data.write_bytes(data.read_bytes()[:-1] + b"?")
    assert answered(make_server(data_dir=tmp_path)) == found and data.stat().st_ino != made
