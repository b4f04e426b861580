"""Lessons without a model: as one file from `file://`, on a static site, and from a server that withholds answers."""

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from app.cli import main
from app.ground.settings import ServerSettings
from app.lessons.catalogue import Catalogue
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from app.server.listener import Listener, bind
from app.site.export import write_lessons, write_page
from tests.browser.axe import AXE, violations
from tests.browser.driving import OpenPage
from tests.browser.lesson_walk import answer_question, wait_for_one_of


def is_problem(message: ConsoleMessage) -> bool:
    """Return whether a console message is an error or a warning, other than a late preload on a slow machine."""
    late = "not used within a few seconds" in message.text
    return message.type in ("error", "warning") and not late


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


OpenAt = OpenPage
MAX_FILE = 3_000_000  # bytes, both languages


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    assert main(["lesson", "record", "not-yet", "pages", "-o", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("file") / "pages.html"
    assert main(["lesson", "export", "pages", "-o", str(path)]) == 0
    assert path.stat().st_size < MAX_FILE
    return path.as_uri()


@pytest.fixture(scope="module")
def mending(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("file") / "mending.html"
    assert main(["lesson", "export", "why-did-it-miss", "-o", str(path), "--language", "en"]) == 0
    return path.as_uri()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("host")
    write_page(root / "kv", "")
    lessons = [lesson for lesson in Catalogue().lessons() if lesson.id in ("not-yet", "pages")]
    write_lessons(root / "kv", lessons)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/kv/"
    server.shutdown()


@pytest.fixture(scope="module")
def server(recorded: Path) -> Iterator[str]:
    listener = Listener(
        create_app(Models(ModelEntry(None)), ServerSettings(recorded_lessons=recorded)), bind("127.0.0.1", 0)
    )
    yield f"http://127.0.0.1:{listener.port}/"
    listener.close()


@pytest.fixture
def open_at(browser: Browser) -> Iterator[OpenAt]:
    """Open a recorded lesson. The page may send no request to another host, and its console must be empty at
    the end.
    """
    contexts, problems = [], list[str]()

    def opened(address: str, more: str = "", **options: object) -> Page:
        size = {"width": 1280, "height": 800}
        context = browser.new_context(**{"viewport": size, "locale": "en-US", "reduced_motion": "reduce", **options})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda m: problems.append(m.text) if is_problem(m) else None)
        host = "/".join(address.split("/")[:3]).replace("http", "")
        page.on(
            "request",
            lambda r: (
                None if r.url.startswith(("file:", "blob:", "data:")) or host in r.url else problems.append(r.url)
            ),
        )
        page.goto(address + more)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def to_the_second(page: Page) -> None:
    """Go to the second question; the first one, from an earlier lesson, is answered with "not sure"."""
    if wait_for_one_of(page, "#lesson-answer", "#lesson-go:enabled") != "#lesson-answer":
        page.click("#lesson-go")
    page.click(".answer.unsure")
    page.click("#lesson-answer")
    expect(page.locator(".question")).to_have_count(2)


def walk(page: Page, until: str = ".lesson-over") -> int:
    """Go to the lesson's end, or to an item of another kind, always answering "not sure". Return the number of
    questions.
    """
    over = page.locator(".question[data-over=true]").count()
    num_answered = 0
    while True:
        at = wait_for_one_of(page, until, "#work-unsure", "#lesson-answer", "#lesson-go:enabled")
        if at == until:
            return num_answered
        if at == "#work-unsure":
            page.click("#work-unsure")
            expect(page.locator("#work-unsure")).to_have_count(0)
            continue
        if at == "#lesson-answer":
            num_answered += 1
            page.locator(".question[data-over=false] .answer.unsure").last.click()
            page.click("#lesson-answer:enabled")
            expect(page.locator(".question[data-over=true]")).to_have_count(over + num_answered)
        else:
            count = page.locator(".article > section > *, .lesson-over").count()
            page.click("#lesson-go:enabled")
            expect(page.locator(".article > section > *, .lesson-over")).not_to_have_count(count)


def test_a_recorded_lesson_asks_before_it_shows_and_plays_to_its_end(file: str, open_at: OpenAt) -> None:
    page = open_at(file, offline=True)
    expect(page.locator("#lesson-title")).to_have_text("From one piece to pages")
    expect(page.locator("#lesson-recorded")).to_contain_text("the answers are in the files of this page")
    expect(page.locator("#lesson-export")).to_have_count(0)
    to_the_second(page)
    answer_question(page, "3")
    expect(page.locator(".verdict").last).to_contain_text("Try once more")
    expect(page.locator(".question").last.locator(".answer-mark:not(.wrong)")).to_have_count(0)
    expect(page.locator("html")).to_have_attribute("data-num-records", "0")
    answer_question(page, "2")
    expect(page.locator(".verdict").last).to_contain_text("Right.")
    page.click("#lesson-go")
    expect(page.locator("html")).to_have_attribute("data-num-records", "5")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-num-records", "5")
    expect(page.locator(".question")).to_have_count(3)
    assert walk(page, ".lesson-sandbox") >= 3
    expect(page.locator("#race-nothing")).to_contain_text("the lanes run on a live model")
    assert walk(page) == 1
    expect(page.locator(".lesson-sandbox")).to_contain_text("kvtheater serve")
    expect(page.locator(".lesson-over")).to_contain_text("0 of 8 right")
    page.click("#lesson-bench")
    expect(page.locator("#connection.replay")).to_be_visible()
    expect(page.locator(".token-row")).to_be_visible()
    page.click("#btn-learn")
    expect(page.locator("#lesson-title")).to_be_visible()


def test_a_recorded_lesson_grades_other_right_answers(mending: str, open_at: OpenAt) -> None:
    page = open_at(mending, offline=True)
    walk(page, ".mend")

    def to_end(name: str, turn: int) -> None:
        part = page.locator(".mend-turn").nth(turn - 1).locator(f".mend-part[data-part={name}]")
        part.locator(".mend-step").last.focus()
        while part.evaluate("part => part.nextElementSibling !== null"):
            page.keyboard.press("ArrowDown")

    to_end("Time", 4)
    page.click("#work-give")
    expect(page.locator(".work-result")).to_contain_text(
        "By the rule of the prefix cache, whole blocks would be computed"
    )
    to_end("Note", 4)  # behind the clock, where the recorded session has it before
    page.locator(".mend-turn").nth(2).locator(".mend-part[data-part=Read] .mend-step").first.click()
    page.click("#work-give")
    expect(page.locator(".work-result").nth(1)).to_contain_text("no whole block would be computed again")
    expect(page.locator(".work-result").nth(2)).to_contain_text("128 tokens saved: 176 hit, 48 before. No whole block")
    assert walk(page) == 0
    expect(page.locator(".lesson-over")).to_contain_text("0 of 5 right")


def test_a_recorded_lesson_keeps_its_place_when_the_language_changes(file: str, open_at: OpenAt) -> None:
    page = open_at(file, offline=True)
    to_the_second(page)
    answer_question(page, "2")
    page.click("#lesson-go")
    page.click("#btn-language")
    expect(page.locator("#lesson-title")).not_to_have_text("From one piece to pages")
    expect(page.locator("#lesson-recorded")).to_contain_text("录制")
    expect(page.locator("html")).to_have_attribute("data-num-records", "5")
    expect(page.locator(".question[data-over=true]")).to_have_count(2)


def test_a_site_loads_a_lesson_when_it_is_opened(site: str, open_at: OpenAt) -> None:
    page = open_at(site, "?distance=learn")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url.removeprefix(site)))
    expect(page.locator(".path-card:enabled")).to_have_count(3)  # the tour, too
    assert not [name for name in requests if name.startswith("lessons/")]
    page.click("#path-not-yet")
    expect(page.locator("#lesson-title")).to_have_text("The token that is not there yet")
    to_the_second(page)
    answer_question(page, "1")
    page.click("#lesson-go")
    expect(page.locator("html")).to_have_attribute("data-num-records", "2")
    assert [name for name in requests if name.startswith("lessons/")] == [
        "lessons/not-yet.en.json",
        "lessons/not-yet.en.0.kvtrace",
    ]
    walk(page)
    link = page.url
    expect(open_at(link).locator("#lesson-title")).to_have_text("The token that is not there yet")


def test_a_server_without_a_model_sends_records_of_answered_items(server: str, open_at: OpenAt) -> None:
    page = open_at(server, "?distance=learn&lesson=pages")
    expect(page.locator("#lesson-recorded")).to_contain_text("its records come when you have answered")
    expect(page.locator("html")).to_have_attribute("data-num-records", "0")
    assert walk(page) == 7
    expect(page.locator(".lesson-over")).to_contain_text("0 of 8 right")
    page.click("#lesson-again")
    expect(page.locator(".question[data-over=false]")).to_have_count(1)
    expect(page.locator("html")).to_have_attribute("data-num-records", "0")


def test_unplayable_lessons_are_explained_in_the_readers_language(open_at: OpenAt) -> None:
    listener = Listener(create_app(Models(ModelEntry(None)), ServerSettings()), bind("127.0.0.1", 0))
    page = open_at(f"http://127.0.0.1:{listener.port}/", "?distance=learn&lang=zh")
    expect(page.locator("#path-pages")).to_be_disabled()
    expect(page.locator("#path-pages .path-state")).to_have_text("这一课边学边算，而这里没有模型：kvtheater serve。")
    page.close()
    listener.close()


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_a_recorded_lesson_is_accessible(file: str, open_at: OpenAt, size: tuple[int, int]) -> None:
    page = open_at(file, viewport={"width": size[0], "height": size[1]}, bypass_csp=True)
    to_the_second(page)
    answer_question(page, "2")
    page.add_script_tag(path=str(AXE))
    assert violations(page) == []
