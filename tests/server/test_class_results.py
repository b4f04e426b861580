"""Class results, as tables and as a page, belong to the presenter and are complete, safe, and anonymous if promised."""

import csv
import http.client
import io
import re
from collections.abc import Callable
from typing import Any

from app.classroom.exports import SECRET
from tests.server.classes import OWNER, TOKEN, Member, Room
from tests.server.conftest import Server, wait_for


def fetch(room: Room, path: str, **headers: str) -> http.client.HTTPResponse:
    return room.get(path, **{**OWNER, SECRET: room.secret, **headers})


def table(room: Room, name: str, language: str = "en", kept: bool = False) -> list[dict[str, str]]:
    where = "classes" if kept else "class"
    answer = fetch(room, f"/api/{where}/{room.id}/{name}.csv?lang={language}")
    assert answer.status == 200
    data = answer.read()
    assert data.startswith(b"\xef\xbb\xbf")
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"))))


def open_question(room: Room, followers: list[Member]) -> None:
    """Ask two questions: one in two rounds with a missing answer, one without a known answer."""
    ask(room, kind="choice", text="Which?", options=["=1+1", "b"])
    for one, given in zip(followers, (0, 1), strict=False):
        one.do("class_answer", poll=0, round=0, given=given)
    room.presenter.do("class_poll", id=room.id, poll=0, to="talk")
    room.presenter.do("class_poll", id=room.id, poll=0, to="again")
    for one, again in zip(followers, (1, 1, None), strict=True):
        one.do("class_answer", poll=0, round=1, given=again)
    room.presenter.do("class_poll", id=room.id, poll=0, to="shown", right=1)
    ask(room, kind="number", text="How many?")
    followers[0].do("class_answer", poll=1, round=0, given=-2)


def ask(room: Room, **fields: Any) -> None:
    room.presenter.do("class_ask", id=room.id, **fields)


def test_a_row_for_each_student_question_and_round(room: Room) -> None:
    followers = [room.follower()[0] for _ in range(3)]
    for one, name in zip(followers, ("Ada", "@SUM(A1)", "月"), strict=True):
        one.do("class_rename", name=name)
    open_question(room, followers)
    rows = table(room, "answers")
    assert len(rows) == 9
    got = [(r["Student"], r["Question"], r["Round"], r["Answer"], r["Right"]) for r in rows]
    assert got[:3] == [("Ada", "1", "1", "'=1+1", "0"), ("Ada", "1", "2", "b", "1"), ("Ada", "2", "1", "-2", "")]
    assert got[3:5] == [("'@SUM(A1)", "1", "1", "b", "1"), ("'@SUM(A1)", "1", "2", "b", "1")]
    assert got[6:8] == [("月", "1", "1", "", ""), ("月", "1", "2", "not sure", "0")]
    assert table(room, "answers", "zh")[7]["回答"] == "不确定"


def test_the_questions_table_lists_every_answer(room: Room) -> None:
    open_question(room, [room.follower()[0] for _ in range(3)])
    rows = table(room, "questions")
    got = [(r["Question"], r["Round"], r["Answer"], r["Answers"], r["Share"], r["Right"], r["Answered"]) for r in rows]
    assert got == [
        ("1", "1", "'=1+1", "1", "0.5", "0", "2"),
        ("1", "1", "b", "1", "0.5", "1", "2"),
        ("1", "1", "not sure", "0", "0", "0", "2"),
        ("1", "2", "'=1+1", "0", "0", "0", "3"),
        ("1", "2", "b", "2", "0.6667", "1", "3"),
        ("1", "2", "not sure", "1", "0.3333", "0", "3"),
        ("2", "1", "-2", "1", "1", "", "1"),
        ("2", "1", "not sure", "0", "0", "", "1"),
    ]
    assert {row["Students"] for row in rows} == {"3"}


def test_a_class_without_names_reveals_none(make_server: Callable[..., Server]) -> None:
    """Pseudonyms are reshuffled for each export, and do not follow the seats: the first seat is not the first row."""
    room = Room(make_server(token=TOKEN), names="none")
    followers = [room.follower() for _ in range(12)]
    ask(room, kind="number", text="How many?")
    for i, (one, _) in enumerate(followers):
        one.do("class_answer", poll=0, round=0, given=i)
    exports = [
        [(row["Student"], int(row["Answer"])) for row in table(room, "answers")] for _ in range(4)
    ]  # equal ones: 1 in 12!
    assert all(sorted(given for _, given in rows) == list(range(12)) for rows in exports)
    assert len({tuple(rows) for rows in exports}) > 1
    assert [given for _, given in exports[0]] != [given for _, given in exports[1]]
    assert all({name for name, _ in rows} == {f"Student {i}" for i in range(1, 13)} for rows in exports)
    text = fetch(room, f"/api/class/{room.id}/answers.csv").read().decode()
    assert not any(entered["mine"]["name"] in text for _, entered in followers)


def test_only_the_presenter_gets_the_results(room: Room) -> None:
    guest = room.ticket()
    for name in ("answers.csv", "questions.csv", "page.html"):
        path = f"/api/class/{room.id}/{name}"
        assert room.get(path, **{SECRET: room.secret}).status == 401  # no owner
        assert room.get(path, Cookie=guest, **{SECRET: room.secret}).status == 401
        assert room.get(path, **OWNER).status == 403
        assert fetch(room, path, **{SECRET: "x" * 32}).status == 403
        assert room.get(f"{path}?secret={room.secret}", **OWNER).status == 403
        assert fetch(room, path).status == 200
    room.presenter.do("class_end", id=room.id)
    assert fetch(room, f"/api/class/{room.id}/answers.csv").status == 200
    assert fetch(room, "/api/class/nobody/answers.csv").status == 404


def test_the_page_explains_itself_without_scripts(room: Room) -> None:
    room.on_stage()
    followers = [room.follower()[0] for _ in range(3)]
    open_question(room, followers)
    followers[0].do("class_lost", lost=True)
    page = fetch(room, f"/api/class/{room.id}/page.html").read().decode()
    results, frame, run = page.partition("<iframe")
    assert frame and "<script" not in results
    assert "Which?" in results and "=1+1" in results and 'class="right"' in results
    assert "Round 2: 3 of 3 answered" in results and 'width="66.67"' in results
    assert "&lt;script" in run and "<script" not in run
    policies = set(
        re.findall(
            r'http-equiv=(?:"|&#34;|&quot;)Content-Security-Policy.*?content=(?:"|&quot;)(.*?)(?:"|&quot;) />', page
        )
    )
    assert len({p.replace("&#x27;", "'").replace("&#39;", "'") for p in policies}) == 1
    assert "课" in fetch(room, f"/api/class/{room.id}/page.html?lang=zh").read().decode()


def test_markup_stays_text_on_the_page(room: Room) -> None:
    ask(room, kind="choice", text="<script>alert(1)</script>", options=["<b>", '" onload="'])
    page = fetch(room, f"/api/class/{room.id}/page.html").read().decode()
    assert "<script" not in page and "<b>" not in page and "&lt;script&gt;alert(1)" in page
    assert "<iframe" not in page and "not there any more" in page


def test_a_lessons_question_is_worded(make_server: Callable[..., Server]) -> None:
    from app.lessons.questions.rules import Evidence, Option, Question
    from app.lessons.words import worded

    options = [Option(text="answer.number", values={"n": 3}), Option(text="answer.bytes", values={"n": 2048})]
    values: dict[str, str | int | float] = {"prompt": 4, "new": 2}
    question = Question(rule="total_computed", values=values, options=options, right=0, evidence=Evidence(record=0))
    text, answers = worded(question, "en")
    assert text.startswith("A prompt of 4 tokens, 2 new ones.") and answers == ["3", "2\u2009KiB"]


def test_exports_of_a_running_class_are_current(room: Room) -> None:
    assert table(room, "answers") == [] == table(room, "questions")
    (one, _) = room.follower()
    ask(room, kind="token", text="Next?")
    one.do("class_answer", poll=0, round=0, given="-moon")
    (row,) = table(room, "answers")
    assert row["Answer"] == "'-moon" and row["Right"] == ""
    wait_for(lambda: room.presenter.desks)
