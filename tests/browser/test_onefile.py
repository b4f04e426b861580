"""A run as one HTML file, opened from `file://` with the network off."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.driving import OpenPage
from tests.preloaded import run_preloaded

ROOT = Path(__file__).parents[2]
POEM = "春江潮水连海平，海上明月共潮生。"
MOST = 3_000_000  # bytes, with a whole poem and every array of it


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export the demo run by the command line: 16 tokens of prompt, 40 of output, all arrays in float32."""
    folder = tmp_path_factory.mktemp("onefile")
    trace, page = folder / "run.kvtrace", folder / "run.html"
    command = [sys.executable, "-m", "app"]
    run_preloaded([*command, "generate", POEM, "--max-tokens", "40", "--record", str(trace)])
    run_preloaded([*command, "export", str(trace), "-o", str(page)], seconds=60)
    return page


@pytest.fixture
def open_file(browser: Browser) -> Iterator[OpenPage]:
    """Open a file offline. There may be no other request, and the console must be empty at the end."""
    contexts = []
    problems: list[str] = []

    def opened(path: Path, address: str = "", **options: object) -> Page:
        size = {"width": 1280, "height": 800}
        usual = {"viewport": size, "locale": "en-US", "reduced_motion": "reduce", "offline": True}
        context = browser.new_context(**{**usual, **options})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.on(
            "request", lambda r: None if r.url.startswith((path.as_uri(), "blob:", "data:")) else problems.append(r.url)
        )
        page.goto(path.as_uri() + address)
        page.wait_for_selector("#connection.replay")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


def painted(page: Page, index: int) -> None:
    expect(page.locator("html")).to_have_attribute("data-painted", str(index), timeout=20_000)


def test_the_demo_run_is_under_three_megabytes(demo: Path) -> None:
    assert 500_000 < demo.stat().st_size < MOST


def test_an_exported_page_opens_and_steps(demo: Path, open_file: OpenPage) -> None:
    page = open_file(demo)
    invitation = page.locator("#stage-play")
    expect(invitation).to_be_visible()  # at its telling record: no preemption, no hit, so a decode step
    expect(page.locator("#sentence")).to_contain_text("decode")
    page.select_option("#speed", "0")
    invitation.click()
    painted(page, 40)
    expect(invitation).to_have_count(0)
    expect(page.locator("#position")).to_contain_text("41 of 41")
    page.keyboard.press("e")  # the sentences for experts
    page.click("#btn-back")
    painted(page, 39)
    page.keyboard.press("ArrowLeft")
    painted(page, 38)
    expect(page.locator("#position")).to_contain_text("39 of 41")
    slider = page.locator(".scrubber [role=slider], .scrubber input[type=range]").first
    slider.focus()
    page.keyboard.press("Home")
    painted(page, -1)
    page.goto(demo.as_uri() + "?step=20")  # the address carries the view, as a link does
    painted(page, 20)


def test_a_weight_on_stage_has_its_provenance(demo: Path, open_file: OpenPage) -> None:
    page = open_file(demo, "?step=20")
    painted(page, 20)
    page.click('[data-position="30"]')
    expect(page.locator("#region-provenance")).to_be_visible()
    kinds = page.locator("#region-provenance li[data-kind]").evaluate_all("(all) => all.map((e) => e.dataset.kind)")
    assert kinds[:6] == ["query", "weight", "key", "slot", "block", "table"]
    page.locator('#region-provenance [data-kind="decision"] .way', has_text="record 3").first.click()
    painted(page, 2)
    page.keyboard.press("Escape")  # releases the key
    page.keyboard.press("Escape")
    expect(page.locator("#region-provenance")).to_have_count(0)


def test_language_and_theme_change_in_an_exported_page(demo: Path, open_file: OpenPage) -> None:
    page = open_file(demo, "?step=3")
    painted(page, 3)
    page.click("#btn-language")
    expect(page.locator("#sentence")).to_contain_text("下一个词元")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#btn-theme")
    page.click("#btn-theme")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != paper


def test_an_exported_page_sends_no_requests(demo: Path, open_file: OpenPage) -> None:
    page = open_file(demo, "?step=40")
    painted(page, 40)
    expect(page.locator("#btn-step")).to_have_count(0)
    expect(page.locator("#prompt")).to_have_count(0)
    page.click("#detail-time")
    expect(page.locator(".chart")).to_contain_text("is not in this file")
    expect(page.locator(".chart-values")).to_contain_text("ms")
    for panel in ("race", "museum", "compare", "library"):
        expect(page.locator(f"#detail-{panel}")).to_have_count(0)
    page.wait_for_timeout(300)


def test_an_exported_page_exports_pictures_and_its_log(demo: Path, open_file: OpenPage) -> None:
    page = open_file(demo, "?step=40")
    painted(page, 40)
    page.click("#btn-export")
    expect(page.locator("#export-html")).to_have_count(0)
    with page.expect_download() as download:
        page.click("#export-png")
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as download:
        page.click("#export-trace")
    assert Path(download.value.path()).read_bytes().startswith(b"KVTRACE")


def test_an_exported_page_works_on_a_phone(demo: Path, open_file: OpenPage) -> None:
    page = open_file(demo, "?step=40", viewport={"width": 390, "height": 844}, has_touch=True)
    painted(page, 40)
    expect(page.locator("#region-stage")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_page_exports_its_run_as_a_file(open_page: OpenPage, open_file: OpenPage, tmp_path: Path) -> None:
    live = open_page("/?max_tokens=4")
    live.click("#btn-prefill")
    painted(live, 1)
    live.click("#btn-step")
    painted(live, 2)
    sentence = live.locator("#sentence").inner_text()
    live.click("#btn-export")
    with live.expect_download() as download:
        live.click("#export-html")
    assert re.fullmatch(r"kvtheater-[\w-]+\.html", download.value.suggested_filename)
    file = tmp_path / "taken.html"
    download.value.save_as(file)
    page = open_file(file)
    painted(page, 2)
    assert page.locator("#sentence").inner_text() == sentence
