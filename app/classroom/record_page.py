"""HTML page of a class, with questions and answers, and the run that was on stage below them.

The questions need neither scripts nor a server. The run is the page of `app/page/onefile.py` in a frame. A frame
inherits the Content-Security-Policy of the page around it, so both use the run's policy.
"""

from __future__ import annotations

import html
import re
import time
from collections import Counter
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader

from app.classroom.results import ClassResults, QuestionResult
from app.classroom.tables import counted, words_in
from app.ground.paths import templates_dir

_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]+)"')
_NONCE = re.compile(r"'nonce-([0-9a-f]+)'")
_POLICY_WITHOUT_RUN = "default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'"
BAR = 100.0  # width of a bar that represents all answers


class _Bar(NamedTuple):
    text: str
    num_answers: int
    width: float
    is_right: bool


class _Round(NamedTuple):
    title: str
    bars: list[_Bar]


class _QuestionSection(NamedTuple):
    number: int
    text: str
    rounds: list[_Round]


def class_page(results: ClassResults, language: str, run: bytes | None, refusal: str | None = None) -> bytes:
    """Return the page. `run`: page of the run, or None, with the key of the reason in `refusal`."""
    words = words_in(language)
    run_page = "" if run is None else run.decode()
    policy = _POLICY.search(run_page)
    nonce = _NONCE.search(policy[1]) if policy else None
    name = nonce[1] if nonce else "results"
    minutes = Counter(int(seconds // 60) for seconds, _ in results.lost)
    environment = Environment(loader=FileSystemLoader(templates_dir()), autoescape=True)
    text = environment.get_template("class_results.html").render(
        words=words,
        title=results.title or words["untitled"],
        facts=words["page.facts"].format(
            date=time.strftime("%Y-%m-%d %H:%M", time.localtime(results.began)),
            students=len(results.students),
            questions=len(results.questions),
        ),
        questions=[_question_section(question, results, words) for question in results.questions],
        lost=len(results.lost),
        lost_at=[words["page.lost_at"].format(minutes=m, count=n) for m, n in sorted(minutes.items())],
        policy=policy[1] if policy else _POLICY_WITHOUT_RUN.format(nonce=name),
        nonce=name,
        sheet=(templates_dir() / "class_results.css").read_text(encoding="utf-8"),
        has_run=run is not None,
        refusal=words[f"page.{refusal}"] if refusal else "",
    )
    return text.replace("<!--run-->", html.escape(run_page, quote=True), 1).encode()


def _question_section(question: QuestionResult, results: ClassResults, words: dict[str, str]) -> _QuestionSection:
    rounds = []
    for number, votes in enumerate(question.rounds, 1):
        bars = [
            _Bar(
                words["unsure"] if given is None else _text(question.displayed(given)),
                count,
                round(BAR * count / len(votes), 2) if votes else 0.0,
                question.is_right(given) is True,
            )
            for given, count in counted(question, votes)
            if count or given is not None
        ]
        title = words["page.round"].format(number=number, answered=len(votes), students=len(results.students))
        rounds.append(_Round(title, bars))
    return _QuestionSection(question.number, question.text, rounds)


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
