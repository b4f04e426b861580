"""Library of recordings in a real browser: opening, recording, naming, adding, deleting, and going back."""

import base64
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from msgspec.structs import replace
from playwright.sync_api import Browser, Route, expect

from engine.trace import codec
from engine.trace.log import TraceReader
from engine.trace.operations import Allocate
from tests.browser.axe import open_with_axe, violations
from tests.browser.driving import OpenPage, prefill, step, wait_for_record, wait_until
from tests.browser.dropping import drop
from tests.browser.settling import address_settings, theater_of

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/cache.kvtrace"
UPLOAD = """(text) => fetch("/api/recordings?name=nonsense", {
  method: "POST", body: Uint8Array.from(atob(text), (c) => c.charCodeAt(0)),
}).then((answer) => answer.json()).then((entry) => entry.id)"""


def test_a_shipped_recording_is_opened_and_the_live_run_comes_back(open_page: OpenPage) -> None:
    page = open_page("/?detail=library")
    prefill(page)
    step(page)
    sentence = page.locator("#sentence").inner_text()
    live = theater_of(page)
    page.click('[data-id="rec-prefix"] .library-open')
    expect(page.locator("#connection")).to_have_class(re.compile("replay"))
    expect(page.locator('[data-id="rec-prefix"]')).to_have_class(re.compile("shown"))
    expect(page.locator("#btn-step")).to_have_count(0)
    expect(page.locator("#btn-record")).to_be_disabled()
    expect(page).to_have_url(re.compile("recording=rec-prefix"))
    expect(page.locator("#btn-to-live")).to_be_visible()
    page.click("#btn-to-live")
    expect(page.locator("#connection")).to_have_class(re.compile("live"))
    wait_for_record(page, 2)
    assert page.locator("#sentence").inner_text() == sentence
    expect(page).not_to_have_url(re.compile("recording="))
    assert address_settings(page)["theater"] == live


BROKEN_DATES = """() => [...document.querySelectorAll('.library-facts')].filter(({ firstChild, textContent }) => {
  const walker = document.createTreeWalker(firstChild.parentNode, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const at = node.data.search(/\\d{4}-\\d\\d-\\d\\d/);
    if (at < 0) continue;
    const range = document.createRange();
    range.setStart(node, at);
    range.setEnd(node, at + 10);
    return range.getClientRects().length > 1;
  }
  return true; // each has its date
}).length"""


def test_dates_of_recordings_stay_on_one_line_on_a_phone(open_page: OpenPage) -> None:
    page = open_page("/?detail=library&region=detail", width=390, height=844, locale="zh-CN")
    expect(page.locator(".library-facts").first).to_be_visible()
    assert page.evaluate(BROKEN_DATES) == 0


def test_a_link_opens_a_recording_at_its_step_with_its_arrays(open_page: OpenPage) -> None:
    page = open_page("/?recording=rec-moon&step=9&block_size=8&telling=expert", connection="replay")
    wait_for_record(page, 9)
    expect(page.locator("#position")).to_contain_text("record 10 of")
    page.click('[data-position="20"]')
    expect(page.locator('#region-provenance [data-kind="weight"]')).to_contain_text(
        "The query read this key with weight"
    )
    page.keyboard.press("Escape")
    page.click("#btn-back")
    wait_for_record(page, 8)
    expect(page).to_have_url(re.compile("block_size=8"))  # the live run's settings stay what they are


def test_earlier_keys_and_values_of_a_recording_are_loaded(open_page: OpenPage) -> None:
    """Keys and values are fetched separately from their records; the token row requests those of every visible
    column.
    """
    page = open_page("/?recording=rec-moon&step=20", connection="replay")
    wait_for_record(page, 20)
    missing = """
      Promise.all(['state/store', 'panels/stage/token_row_columns'].map((name) => import(`/static/js/${name}.js`)))
      .then(([store, { cellOf }]) => {
        const now = store.sequenceView.value;
        return Array.from({ length: now.numFilled }, (_, i) => cellOf(now, 'k', i).missing);
      },
    )"""
    wait_until(page, f"{missing}.then((all) => all.at(-1) === null)")
    wait_until(page, f"{missing}.then((all) => all.slice(-12).every((reason) => reason === null))")


def test_a_run_is_recorded_named_tagged_opened_and_deleted(open_page: OpenPage) -> None:
    page = open_page("/?detail=library&max_tokens=6")
    expect(page.locator("#btn-record")).to_be_disabled()
    prefill(page)
    page.click("#btn-record")
    expect(page.locator("#record-now")).to_be_visible()
    step(page)
    page.click("#btn-record-stop")
    expect(page.locator("#record-now")).to_have_count(0)
    step(page)  # the run continues, the recording does not
    own = page.locator(".library-row").first
    expect(own).to_contain_text("3 records")
    own.locator(".tool").click()
    own.locator("input[name=name]").fill("Lesson <one>")
    own.locator("input[name=tags]").fill("class, poem，class")
    page.keyboard.press("Enter")
    expect(own.locator(".library-name")).to_have_text("Lesson <one>")
    expect(own.locator(".library-tag")).to_have_text(["class", "poem"])
    with page.expect_download() as download:
        own.get_by_role("link", name=".kvtrace").click()
    assert Path(download.value.path()).read_bytes().startswith(b"KVTRACE")
    assert re.fullmatch(r"Lesson .one.\.kvtrace", download.value.suggested_filename)
    own.locator(".library-open").click()
    expect(page.locator("#position")).to_contain_text("3 of 3")
    own.locator(".library-delete").click()
    expect(own.locator(".library-sure button").last).to_be_focused()  # Enter by mistake deletes nothing
    own.locator(".library-delete.sure").click()
    expect(page.locator(".library-row", has_text="Lesson <one>")).to_have_count(0)
    expect(page.locator("#toasts")).to_contain_text("has been deleted")
    expect(page.locator("#connection")).to_have_class(re.compile("live"))  # where one came from
    wait_for_record(page, 3)


def test_tags_typed_while_a_name_is_saved_are_saved_too(open_page: OpenPage) -> None:
    page = open_page("/?detail=library")
    held: list[Route] = []
    page.route("**/api/recordings/rec-*", lambda route: held.append(route) if not held else route.continue_())
    drop(page, GOLDEN.read_bytes(), "to be named.kvtrace")
    own = page.locator(".library-row", has_text="to be named")
    own.locator(".tool").click()
    own.locator("input[name=name]").fill("The lesson")
    own.locator("input[name=tags]").fill("class")
    while not held:
        page.wait_for_timeout(20)
    held[0].continue_()
    expect(page.locator(".library-name", has_text="The lesson")).to_have_count(1)
    named = page.locator(".library-row", has_text="The lesson")
    expect(named.locator("input[name=tags]")).to_have_value("class")
    named.locator("input[name=tags]").press("Enter")
    expect(named.locator(".library-tag")).to_have_text(["class"])
    expect(named.locator(".library-name")).to_have_text("The lesson")


def test_a_dropped_file_is_shown_and_stored(open_page: OpenPage) -> None:
    page = open_page()
    drop(page, GOLDEN.read_bytes(), "from home.kvtrace")
    expect(page.locator("#connection")).to_have_class(re.compile("replay"))
    expect(page.locator("#toasts")).to_contain_text("from home is in the library")
    expect(page).to_have_url(re.compile("recording=rec-"))
    position = page.locator("#position").inner_text()
    page.reload()
    expect(page.locator("#connection")).to_have_class(re.compile("replay"))
    expect(page.locator("#position")).to_have_text(position)


def test_a_dropped_file_leads_back_to_the_live_run(open_page: OpenPage) -> None:
    page = open_page("/?detail=library")
    prefill(page)
    live = theater_of(page)
    drop(page, GOLDEN.read_bytes(), "dropped.kvtrace")
    expect(page).to_have_url(re.compile("recording=rec-"))  # it is saved
    page.click("#btn-to-live")
    expect(page.locator("#connection")).to_have_class(re.compile("live"))
    wait_for_record(page, 1)
    assert address_settings(page)["theater"] == live


def test_a_dropped_file_that_is_no_trace_is_refused(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    drop(page, b"hello", "hello.kvtrace")
    expect(page.locator("#toasts")).to_contain_text("“hello.kvtrace” is not a recording of a run")
    expect(page.locator("#connection")).to_have_class(re.compile("live"))


def test_a_recording_is_shown_up_to_its_first_contradiction(open_page: OpenPage) -> None:
    """The sixth record, with a valid checksum, takes a block that the pool lacks: one notice, and five records are
    shown.
    """
    with TraceReader(GOLDEN) as reader:
        records = [replace(reader.record(i), has_capture=False) for i in range(12)]
        head = codec.MAGIC + codec.frame("header", reader.header_bytes)
    records[5] = replace(records[5], ops=[Allocate(seq_id=0, block_id=10**6, logical=0)])
    frames = [codec.frame("record", codec.encode(record)) for record in records]
    page = open_page()
    kept = page.evaluate(UPLOAD, base64.b64encode(head + b"".join(frames)).decode())
    page.goto(page.url.split("?")[0] + f"?recording={kept}")
    expect(page.locator("#connection")).to_have_class(re.compile("replay"))
    expect(page.locator("#toasts")).to_contain_text("The recording contradicts itself (record 5,")
    page.wait_for_function("document.documentElement.dataset.numRecords === '5'")
    page.wait_for_timeout(700)  # a page that retried would show it again
    assert page.locator("#toasts").inner_text().count("contradicts itself") == 1
    assert page.evaluate("document.documentElement.dataset.numRecords") == "5"


def test_a_failed_list_is_reported_and_retried(open_page: OpenPage) -> None:
    page = open_page()
    page.route("**/api/recordings", lambda route: route.abort())
    page.click("#detail-library")
    expect(page.locator("#library-retry")).to_be_visible()
    page.unroute("**/api/recordings")
    page.click("#library-retry")
    expect(page.locator(".library-row").first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_library_passes_axe(open_page: OpenPage, scheme: str) -> None:
    path = "/?detail=library&detail_large=1&recording=rec-moon"
    page = open_with_axe(open_page, path, connection="replay", color_scheme=scheme)
    page.locator(".library-row .tool").first.click()
    assert violations(page) == []


def test_on_a_phone_every_recording_can_be_reached(open_page: OpenPage) -> None:
    page = open_page("/?detail=library&region=detail", width=390, height=844, has_touch=True)
    expect(page.locator(".library-row").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    heights = page.locator(".library-open").evaluate_all("(all) => all.map((e) => e.getBoundingClientRect().height)")
    assert min(heights) >= 44


@pytest.fixture(scope="module")
def replay_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`kvtheater replay` without a model and without a folder of its own."""
    command = [sys.executable, "-m", "app", "replay", "--port", "0", "--data-dir", str(tmp_path_factory.mktemp("none"))]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout
    timer = threading.Timer(60, process.kill)
    timer.start()
    found = next((m for line in process.stdout if (m := re.search(r"http://\S+", line))), None)
    timer.cancel()
    assert found
    yield found.group().rstrip("/")
    process.terminate()
    process.wait(20)


def test_without_a_model_a_recording_is_on_stage_at_once(browser: Browser, replay_server: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US")
    context.add_init_script("localStorage.setItem('kvtheater.tour', 'done')")  # as for a returning visitor
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(replay_server)
    page.wait_for_selector("#connection.replay", timeout=20_000)
    expect(page.locator("#stage-play")).to_be_visible()
    count = requests.get(f"{replay_server}/api/recordings").json()["recordings"][0]["summary"]["num_records"]
    expect(page.locator("html")).to_have_attribute("data-num-records", str(count))
    expect(page.locator("#library")).to_contain_text("no live model")
    expect(page.locator("#btn-to-live")).to_have_count(0)
    expect(page.locator("#prompt")).to_have_count(0)
    assert problems == []
    context.close()


def test_without_a_model_nothing_offers_to_start_again(browser: Browser, replay_server: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US")
    context.add_init_script("localStorage.setItem('kvtheater.tour', 'done')")  # as for a returning visitor
    page = context.new_page()
    page.goto(f"{replay_server}/?theater=abcdefghijkl")  # a live run's link
    expect(page.locator("#notice")).to_contain_text("no model to start one with", timeout=20_000)
    expect(page.locator("#btn-again")).to_have_count(0)
    page.click("#btn-recording")
    page.wait_for_selector("#connection.replay")
    expect(page.locator("#notice")).to_have_count(0)
    context.close()


def test_an_unlikely_sampled_token_is_listed_with_the_likeliest(open_page: OpenPage) -> None:
    page = open_page("/?recording=rec-samples&step=12&seq=1", connection="replay")
    wait_for_record(page, 12)
    expect(page.locator(".candidate.chosen")).to_have_count(1)
    expect(page.locator(".candidate.chosen")).to_contain_text("chosen")


def test_back_returns_from_a_recording_to_the_run_and_forward_to_the_recording(open_page: OpenPage) -> None:
    page = open_page("/?region=detail&detail=library")
    prefill(page)
    run = theater_of(page)
    page.locator("[data-id^=rec-] .library-open").first.click()
    page.wait_for_selector("#connection.replay")
    wait_until(page, "location.search.includes('recording=')")
    page.go_back()
    page.wait_for_selector("#connection.live")
    assert theater_of(page) == run
    wait_until(page, "!location.search.includes('recording=')")
    wait_for_record(page, 1)
    page.go_forward()
    page.wait_for_selector("#connection.replay")
    page.click("#btn-to-live")
    page.wait_for_selector("#connection.live")
    page.go_back()
    page.wait_for_selector("#connection.replay")
