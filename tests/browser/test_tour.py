"""Tour of a first visit: why there is a cache, in six stops with actions; it does not appear again afterwards."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import OpenPage
from tests.browser.settling import wait_until_still

STOPS = ["ask", "answer", "again", "keep", "blocks", "yours"]

COVERED = """[...document.querySelectorAll('#tour button')].filter((button) => {
  const { left, top, width, height } = button.getBoundingClientRect();
  return !button.contains(document.elementFromPoint(left + width / 2, top + height / 2));
}).map((button) => button.id)"""


def at(page: Page, stop: str, done: bool) -> None:
    card = page.locator("#tour")
    expect(card).to_have_attribute("data-stop", stop)
    expect(card).to_have_attribute("data-done", str(done).lower())


def covers(page: Page, selector: str) -> bool:
    """Whether the card covers the middle of an element."""
    wait_until_still(page)  # it glides there
    covered: bool = page.evaluate(
        """(selector) => {
          const b = document.querySelector(selector).getBoundingClientRect();
          const hit = document.elementFromPoint(b.left + b.width / 2, b.top + b.height / 2);
          return Boolean(hit?.closest('#tour'));
        }""",
        selector,
    )
    return covered


def test_a_completed_tour_is_not_shown_again(open_page: OpenPage) -> None:
    page = open_page(tour=True, motion=True)
    at(page, "ask", False)
    assert not covers(page, ".token-row") and not covers(page, "#btn-step")
    page.click("#btn-step")
    page.click("#btn-step")
    at(page, "ask", True)
    page.click("#tour-next")
    at(page, "answer", False)
    page.focus('[data-position="3"]')
    at(page, "answer", True)
    page.click("#tour-next")
    at(page, "again", False)
    expect(page.locator("#race")).to_have_attribute("data-phase", "ready")
    page.click("#btn-run")
    at(page, "again", True)
    page.click("#tour-next")
    at(page, "keep", False)
    page.click("#btn-step")
    at(page, "keep", True)
    page.click("#tour-next")
    at(page, "blocks", False)
    page.focus('[data-block="0"]')
    at(page, "blocks", True)
    page.click("#tour-next")
    at(page, "yours", False)
    page.fill("#prompt", "Who has seen the sea?")
    page.click("#btn-add")
    at(page, "yours", True)
    page.click("#tour-next")
    expect(page.locator("#tour")).to_have_count(0)
    page.reload()
    page.wait_for_selector("#connection.live")
    page.wait_for_timeout(300)
    expect(page.locator("#tour")).to_have_count(0)


def test_the_tours_first_head_attends_widely(open_page: OpenPage) -> None:
    """No weight of the shown row is close to one, and several are visible, as the sentence says."""
    page = open_page(tour=True)
    for _ in range(8):
        page.click("#btn-step")
    expect(page).to_have_url(re.compile(r"layer=\d+.*head=\d+|head=\d+.*layer=\d+"))
    page.click("#tour-skip")


def test_next_is_always_possible_and_back_goes_back(open_page: OpenPage) -> None:
    page = open_page(tour=True)
    for stop in STOPS:
        at(page, stop, False)
        page.click("#tour-next")
    expect(page.locator("#tour")).to_have_count(0)
    page.click("#btn-help")
    page.click("#btn-tour")
    at(page, "ask", False)
    expect(page.locator("#tour-back")).to_be_disabled()
    page.click("#tour-next")
    page.click("#tour-back")
    at(page, "ask", False)


def test_escape_ends_the_tour_and_keeps_the_selection(open_page: OpenPage) -> None:
    page = open_page(tour=True)
    page.click("#btn-step")
    page.click("#btn-step")
    at(page, "ask", True)
    page.click('[data-position="3"]')
    page.keyboard.press("Escape")
    expect(page.locator("#tour")).to_have_count(0)
    expect(page.locator("#chain")).to_have_attribute("data-pinned", "true")


def test_a_reload_continues_the_tour_at_its_stop(open_page: OpenPage) -> None:
    page = open_page(tour=True)
    page.click("#tour-next")
    page.click("#tour-next")
    at(page, "again", False)
    page.reload()
    at(page, "again", False)


def test_a_visit_by_link_starts_no_tour(open_page: OpenPage) -> None:
    host = open_page()
    expect(host).to_have_url(re.compile("theater="))
    page = open_page("/?" + host.url.split("?")[1], tour=True)
    page.wait_for_timeout(500)
    expect(page.locator("#tour")).to_have_count(0)


@pytest.mark.parametrize(
    ("link", "shown", "width"),
    [
        ("detail=museum&exhibit=missing_causal_mask", "#exhibit-missing_causal_mask", 1280),
        ("detail=library", "#btn-record", 390),
        ("region=memory", "#region-memory", 390),
    ],
)
def test_a_link_to_an_exhibit_or_a_panel_is_not_covered_by_the_tour(
    open_page: OpenPage, link: str, shown: str, width: int
) -> None:
    page = open_page(f"/?{link}", tour=True, width=width)
    expect(page.locator(shown)).to_be_visible()
    page.wait_for_timeout(500)
    expect(page.locator("#tour")).to_have_count(0)


@pytest.mark.parametrize(("width", "height"), [(390, 844), (820, 1180), (1280, 800), (1920, 1080)])
def test_the_card_is_whole_on_every_screen_and_leaves_the_buttons_free(
    open_page: OpenPage, width: int, height: int
) -> None:
    page = open_page(tour=True, width=width, height=height)
    for stop in STOPS:
        at(page, stop, False)
        wait_until_still(page)
        box: dict[str, Any] = page.evaluate("document.querySelector('#tour').getBoundingClientRect().toJSON()")
        assert box["left"] >= 0 and box["top"] >= 0, (stop, box)
        assert box["right"] <= width and box["bottom"] <= height, (stop, box)
        for button in ("#btn-run" if stop == "again" else "#btn-prefill", "#btn-step"):
            assert not covers(page, button), (stop, button)
        page.click("#tour-next")


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (844, 390), (740, 360), (390, 844)])
def test_a_notice_covers_no_button_of_the_card(open_page: OpenPage, width: int, height: int) -> None:
    page = open_page(tour=True, width=width, height=height)
    for stop in STOPS:
        at(page, stop, False)
        page.evaluate("import('/static/js/state/store.js').then((store) => store.toast('No clipboard.'))")
        expect(page.locator("#toasts")).to_contain_text("No clipboard.")
        wait_until_still(page)
        assert page.evaluate(COVERED) == [], stop
        page.click("#tour-next")


def test_the_tour_resumes_like_a_lesson(open_page: OpenPage) -> None:
    """The tour resumes where it was left, by link and from the list, and ends with a link to lesson 1."""
    page = open_page("/?lesson=tour", tour=True)
    at(page, "ask", False)
    expect(page).not_to_have_url(re.compile("lesson="))
    page.click("#tour-next")
    page.click("#tour-next")
    at(page, "again", False)
    page.click("#tour-skip")
    expect(page.locator("#tour")).to_have_count(0)
    page.reload()
    page.click("#btn-learn")
    expect(page.locator("#tour")).to_have_count(0)
    card = page.locator("#path-tour")
    expect(card).to_have_attribute("data-state", "begun")
    expect(card).to_contain_text("stop 3 of 6")
    card.click()
    at(page, "again", False)
    for stop in STOPS[3:]:
        page.click("#tour-next")
        at(page, stop, False)
    page.click("#tour-lesson")
    expect(page.locator("#lesson-title")).to_have_text("What is computed twice")
    page.click(".lesson-home")
    expect(card).to_have_attribute("data-state", "over")
    card.click()
    at(page, "ask", False)
    page.click("#tour-skip")
    page.click("#btn-learn")
    expect(card).to_have_attribute("data-state", "over")
