"""Keyboard focus on a first visit stays where a key was pressed."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import OpenPage, prefill, step, wait_for_record
from tests.browser.lesson_walk import continue_to

FOCUSED = "((e) => (e === document.body ? '' : e.id || e.className))(document.activeElement)"


def test_skipping_the_tour_focuses_the_first_thing_to_do(open_page: OpenPage) -> None:
    page = open_page(tour=True)
    expect(page.locator("#tour")).to_be_visible()
    expect(page.locator(".tour-ring")).to_be_visible()  # what it speaks of was brought into sight
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


def test_lanes_run_step_and_restart_without_losing_the_focus(open_page: OpenPage) -> None:
    page = open_page("/?detail=museum&exhibit=slot_off_by_one")
    expect(page.locator("#museum")).to_have_attribute("data-phase", "ready")
    page.locator("#btn-step").press("Enter")
    expect(page.locator("#museum")).to_have_attribute("data-step", "1", timeout=20_000)
    expect(page.locator("#btn-step")).to_be_focused()
    page.select_option("#speed", "0")
    page.locator("#btn-run").press("Enter")
    expect(page.locator("#museum")).to_have_attribute("data-phase", "done", timeout=90_000)
    expect(page.locator("#btn-play")).to_be_focused()  # there is nothing left to run, only to look at
    page.locator("#btn-reset").press("Enter")
    expect(page.locator("#museum")).to_have_attribute("data-step", "0")
    expect(page.locator("#btn-reset")).to_be_focused()


STOP = """(() => {
  const e = document.activeElement;
  return [e.id || e.className, e.closest('.transport') ? 'transport' : '', e.matches('.fidelity') ? 'mark' : ''];
})()"""


def walk(page: Page, most: int) -> list[tuple[str, str, str]]:
    """Return every stop of the Tab key from the beginning of the page until it leaves: name, position and kind."""
    page.evaluate("(b) => ((b = document.body), (b.tabIndex = -1), b.focus(), b.removeAttribute('tabindex'))")
    stops: list[tuple[str, str, str]] = []
    for _ in range(most):
        page.keyboard.press("Tab")
        name, where, kind = page.evaluate(STOP)
        if not name:
            break
        stops.append((name, where, kind))
    return stops


def test_the_transport_is_within_the_first_fifteen_stops(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    step(page, 2)
    first = [name for name, where, _ in walk(page, 15) if where == "transport"]
    assert first[:4] == ["btn-prefill", "btn-step", "btn-run", "btn-reset"]


def test_fidelity_marks_are_one_tab_stop(open_page: OpenPage) -> None:
    """Arrow keys move between the marks, and Tab returns to the last one."""
    page = open_page()
    prefill(page)
    step(page, 2)
    marks = page.locator(".fidelity:visible").count()
    assert marks > 10
    stops = walk(page, 150)
    assert len(stops) < 150 and sum(kind == "mark" for *_, kind in stops) == 1
    walk(page, next(i for i, (*_, kind) in enumerate(stops) if kind == "mark") + 1)
    index = page.evaluate("document.documentElement.dataset.viewIndex")
    seen = set()
    for _ in range(marks):
        seen.add(page.evaluate("[...document.querySelectorAll('.fidelity')].indexOf(document.activeElement)"))
        expect(page.locator("#tooltip")).to_contain_text("go to the other marks")
        page.keyboard.press("ArrowRight")
    assert len(seen) == marks and -1 not in seen
    assert page.evaluate("document.documentElement.dataset.viewIndex") == index  # the arrows moved nothing else
    left = page.evaluate("[...document.querySelectorAll('.fidelity')].indexOf(document.activeElement)")
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("[...document.querySelectorAll('.fidelity')].indexOf(document.activeElement)") == left


OPENED = {  # what opens something by its id -> what it opens
    "btn-present": "#present-card", "btn-teach": "#class-start", "btn-export": "#export", "btn-help": "#help",
    "position": "#jump", "btn-device": "#models",
}  # fmt: skip
ON_A_PHONE = ("btn-present", "btn-export", "btn-help", "position")


@pytest.mark.parametrize("width", [1280, 390])
def test_escape_restores_the_focus(open_page: OpenPage, width: int) -> None:
    page = open_page(width=width, height=844)
    page.click("#btn-prefill")
    wait_for_record(page, 1)
    for opener in OPENED if width > 1000 else ON_A_PHONE:
        page.locator(f"#{opener}").focus()
        page.keyboard.press("Enter")
        expect(page.locator(OPENED[opener]), opener).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator(OPENED[opener]), opener).to_have_count(0)
        expect(page.locator(f"#{opener}")).to_be_focused()


def test_the_dialog_of_a_class_returns_the_focus(open_page: OpenPage) -> None:
    page = open_page()
    page.locator("#btn-teach").press("Enter")
    page.locator("#class-open").press("Enter")
    for _ in range(2):  # as it comes with the class, and opened again
        expect(page.locator("#class-join")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator("#class-corner")).to_be_focused()
        page.keyboard.press("Enter")


def test_views_have_the_focus_where_it_was_left(open_page: OpenPage) -> None:
    page = open_page()
    prefill(page)
    page.locator("#btn-learn").press("Enter")
    expect(page.locator("#btn-learn")).to_have_count(0)
    expect(page.locator("#lesson-list")).to_be_focused()
    page.go_back()
    expect(page.locator("#btn-learn")).to_be_focused()


def test_an_opened_lesson_has_the_focus_and_returns_it_to_its_card(open_page: OpenPage) -> None:
    page = open_page("/?distance=learn", until="#path-apart")
    page.locator("#path-apart").press("Enter")
    expect(page.locator(".article")).to_be_focused()
    page.go_back()
    expect(page.locator("#path-apart")).to_be_focused()
    expect(page.locator("#path-apart")).to_be_in_viewport(ratio=1)  # far down the list
    page.locator("#lesson-leave").press("Enter")
    expect(page.locator("#region-stage")).to_be_focused()


def test_after_a_wrong_answer_the_focus_is_at_the_remaining_answers(open_page: OpenPage) -> None:
    page = open_page("/?distance=learn&lesson=asked-once", until="#lesson-go")
    page.locator("#lesson-go").press("Enter")
    answers = page.locator(".question input")
    answers.nth(1).press("Space")
    page.locator("#lesson-answer").press("Enter")
    expect(page.locator(".verdict")).to_be_visible()
    expect(answers.nth(0)).to_be_focused()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    expect(page.locator("#lesson-answer")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".verdict")).to_be_focused()


def test_placing_a_block_by_keyboard_keeps_the_focus_at_the_operations(open_page: OpenPage) -> None:
    """The table's button is disabled then, as no block is in the hand; and so with a line that is taken back."""
    page = open_page("/?distance=learn&lesson=pages.yours", until="#lesson-title")
    continue_to(page, ".desk")
    page.locator(".desk-chip[data-head=true]").press("Enter")
    page.locator("button.desk-name").nth(2).press("Enter")
    expect(page.locator(".work-list li")).to_have_count(1)
    expect(page.locator(".desk-tool[data-tool=allocate]")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".desk-chip[data-head=true]")).to_be_focused()
    page.locator(".work-back").press("Enter")
    expect(page.locator(".work-list li")).to_have_count(0)
    expect(page.locator(".desk-tool[data-tool=allocate]")).to_be_focused()
    page.locator("#work-unsure").press("Enter")
    expect(page.locator(".work-result")).to_be_focused()  # the engine's operations


def test_a_button_disabled_by_its_answer_passes_the_focus_on(open_page: OpenPage) -> None:
    """An answer may come before the frame in which the browser takes the focus from the button."""
    page = open_page("/?distance=learn&lesson=asked-once", until="#lesson-go")
    page.evaluate(
        """import('/static/js/panels/lesson/follow.js').then(({ follow }) => {
          const [button, part] = [document.querySelector('#lesson-go'), document.querySelector('.lesson-part')];
          button.focus();
          button.disabled = true;
          follow(part, part);
        })"""
    )
    expect(page.locator(".lesson-part").first).to_be_focused()


@pytest.mark.parametrize("chosen", [False, True], ids=["skipped", "a word chosen"])
def test_after_the_opening_and_after_a_word_step_has_the_focus(open_page: OpenPage, chosen: bool) -> None:
    page = open_page(opening=True)
    expect(page.locator("#opening")).to_have_attribute("data-ready", "true")
    if chosen:
        page.locator("#opening-time").press("End")
        page.locator(".opening-word").first.press("Enter")
    else:
        page.keyboard.press("Escape")
    expect(page.locator("#intro-step")).to_be_focused()
    expect(page.locator("#intro-fan")).to_be_enabled()
    page.locator("#intro-fan").press("Enter")
    page.locator(".opening-word").last.press("Enter")
    expect(page.locator(".opening-word")).to_have_count(0)
    expect(page.locator("#intro-step")).to_be_focused()
