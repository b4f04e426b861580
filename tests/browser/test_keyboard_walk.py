"""The first visit by keyboard alone: whatever is pressed, the focus stays with who pressed it."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

OpenPage = Callable[..., Page]
FOCUSED = "((e) => (e === document.body ? '' : e.id || e.className))(document.activeElement)"


def test_who_skips_the_tour_goes_on_at_the_first_thing_to_do(open_page: OpenPage) -> None:
    page = open_page(tour=True)
    expect(page.locator("#tour")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) == "tour-skip"
    page.keyboard.press("Enter")
    expect(page.locator("#tour")).to_have_count(0)
    expect(page.locator("#btn-prefill")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-painted", "1")


def test_run_and_pause_are_one_button_for_the_keyboard_too(open_page: OpenPage) -> None:
    page = open_page("/?speed=1&max_tokens=40&ignore_eos=1")
    page.locator("#btn-prefill").press("Enter")
    expect(page.locator("html")).to_have_attribute("data-painted", "1")
    page.locator("#btn-run").press("Enter")
    expect(page.locator("#btn-pause")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#btn-run")).to_be_focused()
    page.keyboard.press("ArrowLeft")  # looking back, the same place plays the log
    expect(page.locator("#btn-play")).to_be_focused()


def test_lanes_are_run_stepped_and_begun_again_without_losing_the_focus(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum&exhibit=slot_off_by_one")
    page.locator("#museum-step").press("Enter")
    expect(page.locator("#museum")).to_have_attribute("data-step", "1", timeout=20_000)
    expect(page.locator("#museum-step")).to_be_focused()
    page.select_option("#museum-speed", "0")
    page.locator("#museum-run").press("Enter")
    expect(page.locator("#museum")).to_have_attribute("data-phase", "done", timeout=90_000)
    expect(page.locator("#museum-look")).to_be_focused()  # there is nothing left to run, only to look at
    page.locator("#museum-reset").press("Enter")
    expect(page.locator("#museum-run")).to_be_focused()
