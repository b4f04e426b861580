"""An opened trace in a notebook: a page in a frame without a server, in an origin of its own."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from kvtheater import WatchedRun, open_trace, show
from tests.conftest import ROOT

MOON = ROOT / "static/recordings/moon.kvtrace"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_context(reduced_motion="reduce") as context:
        yield context.new_page()


def shown(page: Page, content: str, folder: Path) -> list[str]:
    """Show a cell's output as a notebook does; errors of the page are collected."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    cell = folder / "cell.html"
    cell.write_text(f"<!doctype html><meta charset=utf-8><body>{content}</body>", encoding="utf-8")
    page.goto(cell.as_uri())
    return errors


def test_a_trace_in_a_notebook_shows_its_page_and_steps(page: Page, tmp_path: Path) -> None:
    with open_trace(MOON) as trace:
        errors = shown(page, trace._repr_html_(), tmp_path)
        last = len(trace) - 1
    frame = page.frame_locator("iframe")
    expect(frame.locator("html")).to_have_attribute("data-num-records", str(last + 1), timeout=20_000)
    expect(frame.locator("html")).to_have_attribute("data-painted", re.compile(r"^\d+$"))
    shown_first = int(frame.locator("html").get_attribute("data-painted") or "0")  # the record that tells most
    frame.locator("#btn-back").click()
    expect(frame.locator("html")).to_have_attribute("data-painted", str(shown_first - 1))
    expect(frame.locator(".pool canvas").first).to_be_visible()
    assert errors == []


def test_a_watched_run_announces_its_page_and_then_shows_it(page: Page, tmp_path: Path) -> None:
    run = WatchedRun(tmp_path / "run.kvtrace")
    assert "is written when" in run._repr_html_()
    run.path.write_bytes(MOON.read_bytes())
    shown(page, run._repr_html_(), tmp_path)
    expect(page.frame_locator("iframe").locator("html")).to_have_attribute("data-num-records", "25", timeout=20_000)


def test_a_notebooks_own_server_is_driven_from_its_frame(page: Page, tmp_path: Path) -> None:
    """The page around it is another site's: the frame has no cookies, and a socket all the same."""
    page.add_init_script("localStorage.setItem('kvtheater.opening', 'seen')")
    server = show(enforce_eager=True)
    try:
        errors = shown(page, server._repr_html_(), tmp_path)
        frame = page.frame_locator("iframe")
        expect(frame.locator("#connection.live")).to_be_attached(timeout=60_000)
        frame.locator("#prompt").fill("春江潮水连海平，")
        frame.locator("#btn-prefill").click()
        expect(frame.locator("html")).to_have_attribute("data-painted", "1")
        assert [error for error in errors if "503" not in error] == []  # asked before the model was there
    finally:
        server.close()
