"""Scheduler panel in a real browser: tracks, budgets, decisions."""

import re

from playwright.sync_api import Page, expect

from tests.browser.driving import OpenPage, prefill, step, wait_for_record
from tests.browser.settling import wait_for_value


def open_tracks(page: Page) -> None:
    page.click("#detail-scheduler")
    page.wait_for_selector(".tracks-cursor")


def cell(page: Page, record: int, track: int) -> tuple[float, float]:
    """Return the middle of a cell on the screen, from the button that moves over the cells."""
    page.locator(".tracks-cursor").focus()
    page.keyboard.press("Home")
    for _ in range(record):
        page.keyboard.press("ArrowRight")
    for _ in range(track):
        page.keyboard.press("ArrowDown")
    cursor = page.locator(".tracks-cursor")
    expect(cursor).to_have_attribute("aria-label", re.compile(rf"^seq {track}, record {record + 1}\b"))
    box = cursor.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_an_empty_run_explains_its_tracks(open_page: OpenPage) -> None:
    page = open_page("/?detail=scheduler")
    expect(page.locator(".scheduler")).to_contain_text("Each prompt gets a track here")


def test_decisions_are_described_with_numbers(open_page: OpenPage) -> None:
    page = open_page("/?detail=scheduler")
    prefill(page)
    decisions = page.locator(".decision-list")
    expect(decisions).to_contain_text("prefix cache miss")
    expect(decisions).to_contain_text(
        "seq 0 is admitted: 0 tokens come from the cache. 16 tokens are computed in this step."
    )
    expect(decisions).to_contain_text("seq 0 gets 4 blocks (0–3). It was admitted: tokens 0–15 of its prompt need")
    expect(page.locator(".decisions-used")).to_contain_text("16 of ")
    page.click("#btn-back")
    wait_for_record(page, 0)
    expect(decisions).to_contain_text("seq 0 arrives with 16 prompt tokens, place 1 in the queue")


def test_a_cell_leads_to_its_record_and_a_mark_selects_its_operation(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    step(page, 3)
    open_tracks(page)
    x, y = cell(page, record=2, track=0)
    page.mouse.click(x, y)
    wait_for_record(page, 2)
    x, y = cell(page, record=0, track=0)
    page.mouse.click(x, y)  # where it was submitted
    wait_for_record(page, 0)
    expect(page.locator(".decision[aria-pressed=true]")).to_contain_text("arrives with")


def test_arrow_keys_walk_the_cells_and_a_screen_reader_names_them(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    step(page, 2)
    open_tracks(page)
    cell(page, record=1, track=0)
    cursor = page.locator(".tracks-cursor")
    expect(cursor).to_be_focused()
    first = "seq 0, record 2, step 1; prefill, 16 tokens; Step 1: 16 prefill and 0 decode tokens"
    expect(cursor).to_have_attribute("aria-label", re.compile(f"^{first}"))
    page.keyboard.press("ArrowRight")
    expect(cursor).to_have_attribute("aria-label", re.compile("decode, 1 token"))
    page.keyboard.press("Enter")
    wait_for_record(page, 2)


def test_many_records_scroll_and_the_record_shown_stays_in_view(open_page: OpenPage) -> None:
    page = open_page("/?detail=scheduler&max_tokens=64&num_blocks=48", width=1100)
    prefill(page)
    page.select_option("#speed", "0")
    page.click("#btn-run")
    wait_for_record(page, 64)
    scroll = "document.querySelector('.tracks-scroll')"
    wait_for_value(page, f"{scroll}.scrollWidth > {scroll}.clientWidth && {scroll}.scrollLeft > 0", True)
    page.click("#btn-first")
    wait_for_record(page, -1)
    page.click("#btn-forward")
    wait_for_record(page, 0)
    wait_for_value(page, f"{scroll}.scrollLeft", 0)


def test_on_a_phone_the_legend_names_all_visible_marks(open_page: OpenPage) -> None:
    """Three of the four samples' tracks begin with a fork, and there is no hint of content to scroll to."""
    page = open_page("/?detail=scheduler&n=4&temperature=1", width=390, height=844, has_touch=True)
    page.click("#btn-prefill")
    wait_for_record(page, 1)
    page.click("#tab-detail")
    legend = page.locator(".tracks-legend")
    expect(legend).to_contain_text("forked")
    for entry in legend.locator("li").all():
        box = entry.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390, entry.inner_text()
