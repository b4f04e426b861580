"""A site in Chromium, from a static file server: the opening, a recorded fork, a race."""

import functools
import http.server
import re
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from app.site.export import RUNS, write_futures, write_page
from app.site.runs import record_races
from engine.model.loader import load_model
from engine.model.shipped import BUNDLED
from tests.browser.settling import settled_value, wait_for_value

MAX_FIRST = 5_000_000  # bytes, before a visitor can act


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the site's address, below a folder, as on many static hosts."""
    root = tmp_path_factory.mktemp("host")
    model = load_model(BUNDLED)
    write_page(root / "kv", "")
    write_futures(root / "kv", model)
    record_races(model, "en", root / "kv" / RUNS)
    handler = functools.partial(Quiet, directory=str(root))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/kv/"
    server.shutdown()


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Page]:
    """Visit for the first time. There may be no failure, no breach of the policy, and no request to another host."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US", reduced_motion="reduce")
    problems: list[str] = []
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("response", lambda r: problems.append(r.url) if r.status >= 400 else None)
    page.on("request", lambda r: None if r.url.startswith((address, "data:", "blob:")) else problems.append(r.url))
    yield page
    context.close()
    assert problems == []


class Held(NamedTuple):
    """First visit with motion, whose recording is delayed until `release`."""

    page: Page
    release: Callable[[], None]


@pytest.fixture
def held(browser: Browser) -> Iterator[Held]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US")
    page = context.new_page()
    page.set_default_timeout(20_000)
    waiting: list[Route] = []
    page.route("**/runs/rec-opening-en.kvtrace", lambda route: waiting.append(route))

    def release() -> None:
        for route in waiting:
            route.continue_()

    yield Held(page, release)
    context.close()


def scrub(page: Page, seconds: float) -> None:
    page.evaluate(
        "(t) => { const e = document.querySelector('#opening-time'); e.value = t;"
        " e.dispatchEvent(new Event('input', {bubbles: true})) }",
        seconds,
    )


def test_a_word_opens_its_recorded_continuation_which_the_link_names(visit: Page, address: str) -> None:
    received: list[int] = []
    visit.on("response", lambda r: received.append(int(r.headers.get("content-length", 0))))
    visit.goto(address)
    visit.wait_for_selector("#opening[data-ready=true]")
    assert 0 < sum(received) < MAX_FIRST
    for _ in range(7):
        visit.keyboard.press("ArrowRight")
    word = visit.locator(".opening-fan li:nth-child(2) b").inner_text()
    visit.click(".opening-fan li:nth-child(2) button")
    generated = visit.locator(".intro-text .generated")
    expect(generated).to_have_text(re.compile(rf"^\s*{re.escape(word)}"))
    visit.click("#intro-step")
    visit.click("#intro-step")
    expect(visit).to_have_url(re.compile(r"recording=rec-opening-en-.*step=\d+.*distance=look"))
    visit.wait_for_timeout(500)  # the address follows where one looks after 150 ms without a change
    text = generated.inner_text()
    visit.reload()
    expect(visit.locator(".intro-text .generated")).to_have_text(text)
    visit.click("#intro-more")
    expect(visit.locator("#connection.replay")).to_be_visible()
    expect(visit.locator(".token-row")).to_be_visible()


def test_only_words_with_a_recorded_continuation_are_clickable(visit: Page, address: str) -> None:
    visit.goto(f"{address}?distance=look&recording=rec-opening-en&step=30")
    visit.wait_for_selector("#intro")
    visit.click("#intro-fan")
    expect(visit.locator(".opening-word").first).to_be_disabled()


def test_the_recorded_race_is_played(visit: Page, address: str) -> None:
    visit.goto(f"{address}?recording=rec-moon&detail=race&speed=0")
    expect(visit.locator("#sentence")).to_contain_text("All three have the prompt")
    expect(visit.locator("#btn-step")).to_have_count(0)
    visit.click("#btn-play")
    expect(visit.locator("#race")).to_have_attribute("data-step", re.compile(r"[1-9]"))
    visit.keyboard.press("End")
    expect(visit.locator("#sentence")).to_contain_text("tokens computed without a cache")
    visit.click("#lanes-models")
    expect(visit.locator('[data-strategy-lane="bundled-mqa"] [data-figure="perToken"]')).to_have_text("384\u2009B")
    visit.click("#detail-attention")
    shown = """import('./static/first.js').then(({ js_state_store_js: { log, own } }) =>
      log.value !== null && log.value === own.log.value)"""
    wait_for_value(visit, shown, True)


def test_the_opening_looks_the_same_before_all_its_arrays_are_loaded(address: str, held: Held) -> None:
    page = held.page
    page.goto(address)
    page.wait_for_selector("#opening[data-ready=true]")
    wait_for_value(page, "document.querySelector('#opening-play').ariaLabel", "Pause")
    scrub(page, 8)
    painted = "document.querySelector('.opening-canvas canvas').toDataURL()"
    before = settled_value(page, painted)
    scrub(page, 9.8)
    page.click("#opening-play")
    wait_for_value(page, "document.querySelector('#opening').dataset.beat", "ask")
    page.wait_for_timeout(600)
    assert page.locator("#opening").get_attribute("data-beat") == "ask", "it waits for the arrays"
    scrub(page, 24)
    expect(page.locator("#opening")).to_have_attribute("data-ready", "false")
    scrub(page, 9.8)
    page.click("#opening-play")
    held.release()
    wait_for_value(page, "document.querySelector('#opening').dataset.beat", "again")
    scrub(page, 8)
    assert settled_value(page, painted) == before and len(before) > 5000


def test_a_first_visit_requests_few_files(visit: Page, address: str) -> None:
    requests: list[str] = []
    visit.on("request", lambda request: requests.append(request.url.removeprefix(address)))
    visit.goto(address)
    visit.wait_for_selector("#opening[data-ready=true]")
    modules = [name for name in requests if name.endswith((".js", ".mjs"))]
    assert sorted(modules) == ["static/first.js", "static/js/onefile/prefetch.js"], (
        "all else comes when it is asked for"
    )
    assert len(requests) < 20
