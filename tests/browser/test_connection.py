"""A missing connection, run or array is announced, and recovers."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.driving import OpenPage, num_records, prefill, step, wait_for_record, wait_until
from tests.browser.dropping import drop_recording
from tests.browser.mortal_server import RestartableServer
from tests.browser.recording import GOLDEN
from tests.browser.settling import resize, theater_of


def test_late_arrays_are_announced_and_then_drawn(open_page: OpenPage) -> None:
    page = open_page("/?speed=0&max_tokens=40")
    prefill(page)
    page.click("#btn-run")
    expect(page.locator(".status.finished")).to_have_count(1)
    theater = theater_of(page)
    other = open_page()
    held: list[Route] = []
    holding = True

    def hold(route: Route) -> None:
        if holding:
            held.append(route)
        else:
            route.continue_()

    other.route(re.compile("/layers/"), hold)
    other.goto(other.url.split("?")[0] + f"?theater={theater}")  # it gets the arrays of the newest records only
    other.wait_for_selector("#connection.live")
    wait_for_record(other, num_records(page) - 1)
    other.keyboard.press("Home")
    for _ in range(3):
        other.keyboard.press("ArrowRight")
    wait_for_record(other, 2)
    expect(other.locator("#late")).to_have_text("tensors on the way")
    holding = False
    for route in held:
        route.continue_()
    expect(other.locator("#late")).to_have_count(0)


def test_a_late_viewer_shows_its_lag_and_a_failed_language_changes_nothing(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    # a word of the server that is still on its way would say otherwise
    wait_until(page, "import('/static/js/state/store.js').then((store) => store.status.value.num_records === 2)")
    page.evaluate(
        """import("/static/js/state/store.js").then((store) => {
          store.status.value = { ...store.status.value, num_records: store.numRecords.value + 300 };
        })"""
    )
    expect(page.locator("#late")).to_have_text("300 records on the way")

    page.route("**/words/*.json", lambda route: route.abort())
    page.click("#btn-language")
    expect(page.locator("#toasts")).to_contain_text("did not answer")
    expect(page.locator("html")).to_have_attribute("lang", "en")
    expect(page.locator("#btn-language")).to_have_text("中文")
    page.unroute("**/words/*.json")
    page.click("#btn-language")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")


def test_a_reset_by_another_page_is_announced_but_not_to_viewers_of_a_recording(open_page: OpenPage) -> None:
    """A page's own reset is not announced to it."""
    page = open_page()
    wait_until(page, "location.search.includes('theater=')")
    other = open_page("/" + page.url[page.url.index("?") :])
    prefill(page)
    step(page)
    wait_for_record(other, 2)
    other.keyboard.press("ArrowLeft")
    page.click("#btn-reset")
    expect(other.locator(".toast")).to_contain_text("Someone else reset this run")
    wait_for_record(other, -1)
    prefill(page)
    wait_for_record(other, 1)  # it follows the new run from its beginning
    expect(page.locator(".toast")).to_have_count(0)

    drop_recording(other, GOLDEN)
    count = num_records(other)
    step(page)
    other.wait_for_timeout(500)
    assert num_records(other) == count
    expect(other.locator("#connection")).to_have_class(re.compile("replay"))
    expect(other.locator(".toast.error")).to_have_count(0)


def test_a_link_to_a_run_that_is_gone_offers_another(open_page: OpenPage) -> None:
    """The notice covers neither the text nor the transport, can be dismissed, and returns on request."""
    page = open_page("/?theater=nobody&block_size=8&step=3", connection="gone")
    expect(page.locator("#notice")).to_contain_text("no longer on the server")
    for width, height in ((1280, 720), (1920, 1080), (768, 1024), (390, 844)):
        resize(page, width, height)
        covered = page.evaluate(
            """() => {
              const told = document.querySelector('#notice').getBoundingClientRect();
              return ['.stage-head', '.transport'].filter((name) => {
                const box = document.querySelector(name).getBoundingClientRect();
                return box.top < told.bottom && told.top < box.bottom && box.left < told.right && told.left < box.right;
              });
            }"""
        )
        assert covered == [], (width, height)
    resize(page, 1280, 800)
    page.click("#notice-close")
    expect(page.locator("#notice")).to_have_count(0)
    page.click("#connection-why")
    expect(page.locator("#btn-again")).to_be_visible()
    page.click("#btn-again")
    expect(page.locator("#connection")).to_have_class(re.compile("live"))
    expect(page.locator("#notice")).to_have_count(0)
    expect(page.locator("#connection-why")).to_have_count(0)
    assert page.evaluate("import('/static/js/state/store.js').then((s) => s.log.value.header.engine.block_size)") == 8
    prefill(page)


@pytest.fixture
def restartable_server() -> Iterator[RestartableServer]:
    server = RestartableServer()
    yield server
    server.kill()


def test_a_changed_token_is_reported(open_page: OpenPage, restartable_server: RestartableServer) -> None:
    """The log stays visible; opening the new address in the same browser reconnects the page."""
    restartable_server.kill()
    restartable_server.token = "the-first-of-two-tokens"
    restartable_server.start()
    page = open_page(f"{restartable_server.url}/?token={restartable_server.token}")
    page.fill("#prompt", "once upon a time")
    page.click("#btn-prefill")
    wait_for_record(page, 1)
    restartable_server.kill()
    restartable_server.token = "the-second-of-two-tokens"
    restartable_server.start()
    page.wait_for_selector("#connection.gone", timeout=30_000)
    expect(page.locator("#notice")).to_contain_text("asks for a token that this browser does not have")
    expect(page.locator("#notice")).to_contain_text("The 2 records of this run are still here to read")
    expect(page.locator("#btn-again")).to_have_count(0)
    other = page.context.new_page()
    other.goto(f"{restartable_server.url}/?token={restartable_server.token}")
    expect(page.locator("#notice")).to_contain_text("This run is no longer on the server", timeout=30_000)
    page.click("#btn-again")
    page.wait_for_selector("#connection.live")


def test_after_a_killed_server_the_log_is_readable_and_a_restart_possible(
    open_page: OpenPage, restartable_server: RestartableServer
) -> None:
    page = open_page(f"{restartable_server.url}/?num_blocks=64")
    page.fill("#prompt", "once upon a time")
    page.click("#btn-prefill")
    wait_for_record(page, 1)
    step(page, 3)
    sentence = page.locator("#sentence").inner_text()
    restartable_server.kill()
    page.wait_for_selector("#connection.lost")
    expect(page.locator("#notice")).to_contain_text("What you see stays")
    assert page.locator("#sentence").inner_text() == sentence
    page.keyboard.press("ArrowLeft")  # what is here can be read meanwhile
    wait_for_record(page, 3)
    restartable_server.start()
    page.wait_for_selector("#connection.gone", timeout=30_000)
    expect(page.locator("#notice")).to_contain_text("Its 5 records are still here to read")
    expect(page.locator("#btn-step")).to_have_count(0)
    page.select_option("#speed", "16")
    page.click("#btn-play")
    wait_for_record(page, 4)
    assert page.locator("#sentence").inner_text() == sentence
    page.click("#btn-again")
    page.wait_for_selector("#connection.live")
    expect(page.locator("#prompt")).to_have_value("once upon a time")
    page.click("#btn-prefill")
    wait_for_record(page, 1)


@pytest.mark.parametrize(
    ("locale", "stopped", "awaited"),
    [
        (
            "en-US",
            "The server was stopped. This run is no longer on the server.",
            "A new run begins as soon as it does.",
        ),
        ("zh-CN", "服务器已停止。这次运行已不在服务器上。", "一恢复就会开始新的运行。"),
    ],
)
def test_a_restart_during_an_outage_is_announced_and_done_later(
    open_page: OpenPage, restartable_server: RestartableServer, locale: str, stopped: str, awaited: str
) -> None:
    page = open_page(f"{restartable_server.url}/?num_blocks=64", locale=locale)
    page.fill("#prompt", "once upon a time")
    page.click("#btn-prefill")
    wait_for_record(page, 1)
    restartable_server.stop()
    page.wait_for_selector("#connection.gone")
    expect(page.locator("#notice")).to_contain_text(stopped)
    page.click("#btn-again")
    expect(page.locator("#notice")).to_contain_text(awaited)
    restartable_server.start()
    page.wait_for_selector("#connection.live", timeout=30_000)
    expect(page.locator("#prompt")).to_have_value("once upon a time")
    expect(page.locator("#notice")).to_have_count(0)


def test_missing_texts_are_announced_until_they_load(browser: Browser, live_server: str) -> None:
    """The page cannot be drawn without its words, so the message for this case is part of the page itself."""
    for path in ("/", "/bench"):
        with browser.new_context(locale="zh-CN", reduced_motion="reduce") as context:
            page = context.new_page()
            page.route("**/words/**", lambda route: route.abort())
            page.goto(live_server + path)
            expect(page.locator("#no-words-shown")).to_contain_text("服务器没有应答")
            page.unroute("**/words/**")
            expect(page.locator("#btn-language")).to_have_text("EN", timeout=20_000)
            expect(page.locator("#no-words-shown")).to_have_count(0)


def test_a_lesson_continues_after_a_restart_of_its_server(open_page: OpenPage, tmp_path: Path) -> None:
    """The stopping server receives no request for the lesson's run."""
    server = RestartableServer(data=tmp_path, served=True)
    try:
        page = open_page(f"{server.url}/?distance=learn&lesson=not-yet", until="#lesson .lesson-title")
        page.click("#lesson-go")
        expect(page.locator("#lesson .question")).to_be_visible()
        server.stop()
        expect(page.locator("#notice")).to_contain_text("Its 1 record is still here")
        server.start()
        expect(page.locator("#notice")).to_have_count(0, timeout=30_000)
        expect(page.locator("#lesson .question")).to_be_visible()
        expect(page.locator(".toast.error")).to_have_count(0)
    finally:
        server.kill()
