"""Presenting in a room: stage, pool and sentence alone, scaled to the screen; a remote advances by scenes."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import open_with_axe, violations
from tests.browser.driving import PAINTED, OpenPage, wait_until
from tests.browser.settling import wait_until_still


def in_the_room(open_page: OpenPage, **options: int | str) -> Page:
    page = open_page("/?scene=moon&distance=room", until=".present-title", **options)
    wait_until(page, "Number(document.documentElement.dataset.numRecords) >= 1")
    return page


@pytest.mark.parametrize(("width", "height", "scale"), [(1280, 720, 1.0), (1920, 1080, 1.5)])
def test_the_projector_view_fits_the_screen(open_page: OpenPage, width: int, height: int, scale: float) -> None:
    page = in_the_room(open_page, width=width, height=height)
    for _ in range(3):
        page.keyboard.press("PageDown")
    expect(page.locator("#sentence")).not_to_be_empty()
    for selector in ("#present-card", ".token-row", ".pool", "#sentence"):
        box = page.locator(selector).bounding_box()
        assert box and box["y"] >= 0 and box["y"] + box["height"] <= height + 1 and box["x"] + box["width"] <= width + 1
    shown = page.evaluate(
        "(() => { const e = document.querySelector('#sentence');"
        " return [e.getBoundingClientRect().height / e.offsetHeight, parseFloat(getComputedStyle(e).fontSize)] })()"
    )
    assert shown[0] * shown[1] == pytest.approx(20 * scale, rel=0.02) or shown[1] == pytest.approx(20 * scale, rel=0.02)
    for hidden in (".setup", "#region-detail", ".tables", ".chain"):
        expect(page.locator(hidden).first).to_be_hidden()


def test_a_presenters_remote_walks_steps_and_scenes(open_page: OpenPage) -> None:
    page = in_the_room(open_page)
    title = page.locator(".present-title").inner_text()
    page.keyboard.press("PageDown")
    expect(page.locator("html")).to_have_attribute("data-num-records", re.compile("[2-9]"))
    page.keyboard.press("Shift+PageDown")
    expect(page.locator(".present-title")).not_to_have_text(title)
    page.keyboard.press("Shift+PageUp")
    expect(page.locator(".present-title")).to_have_text(title)


def test_the_position_stays_between_present_view_and_workspace(open_page: OpenPage) -> None:
    page = in_the_room(open_page)
    for _ in range(4):
        before = page.evaluate(PAINTED)
        page.keyboard.press("PageDown")
        wait_until(page, f"{PAINTED} > {before}")
    before = page.evaluate(PAINTED)
    page.keyboard.press("ArrowLeft")
    wait_until(page, f"{PAINTED} < {before}")
    wait_until_still(page)
    sentence = page.locator("#sentence").inner_text()
    page.keyboard.press("Escape")
    expect(page.locator(".setup")).to_be_visible()
    expect(page.locator("#sentence")).to_have_text(sentence)
    page.keyboard.press("v")
    expect(page.locator("#present-card")).to_be_visible()
    expect(page).to_have_url(re.compile("distance=room"))
    page.click("#present-leave")
    expect(page.locator(".setup")).to_be_visible()


def test_a_click_finds_the_column_under_the_pointer_when_it_is_enlarged(open_page: OpenPage) -> None:
    page = in_the_room(open_page, width=1920, height=1080)
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    box = page.locator('[data-position="3"]').bounding_box()
    strip = page.locator(".token-row canvas").first.bounding_box()
    assert box and strip
    page.mouse.click(box["x"] + box["width"] / 2, strip["y"] + strip["height"] * 0.4)
    expect(page).to_have_url(re.compile("select=[^&]*3"))


def test_it_is_accessible(open_page: OpenPage) -> None:
    page = open_with_axe(open_page, "/?scene=moon&distance=room", until=".present-title")
    assert violations(page) == []
