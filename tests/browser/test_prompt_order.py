"""Mending a session on the page: parts are dragged, or moved by keys, and the result is run."""

from playwright.sync_api import Locator, Page, expect

from tests.browser.axe import open_with_axe, violations
from tests.browser.driving import OpenPage
from tests.browser.lesson_walk import continue_to
from tests.browser.settling import wait_until_still

LESSON = "/?distance=learn&lesson=why-did-it-miss"


def part(page: Page, turn: int, name: str) -> Locator:
    return page.locator(".mend-turn").nth(turn - 1).locator(".mend-part", has_text=f"{name}:").first


def lines(page: Page, turn: int) -> list[str]:
    return page.locator(".mend-turn").nth(turn - 1).locator(".mend-part > span").all_inner_texts()


def test_parts_are_dragged_and_moved_by_keys_in_every_turn_and_the_session_is_run(open_page: OpenPage) -> None:
    page = open_page(LESSON, until=".article")
    continue_to(page, ".mend")
    expect(page.locator(".mend-mark")).to_have_count(3)
    part(page, 2, "Time").drag_to(part(page, 2, "Then ask"), target_position={"x": 20, "y": 25})
    assert [lines(page, turn)[-1] for turn in (1, 2, 3, 4)] == ["Time: nine", "Time: ten", "Time: eleven", "Time: noon"]
    page.click("#work-give")
    expect(page.locator(".work-result")).to_contain_text("44 tokens saved: 92 hit, 48 before. Whole blocks are still")
    up, down = (part(page, 3, "Read").locator(".mend-step").nth(0), part(page, 4, "Note").locator(".mend-step").nth(1))
    up.focus()
    page.keyboard.press("Enter")
    assert lines(page, 3)[1:3] == ["Read: opens a book", "Write: adds a line"]
    expect(up).to_be_focused()
    page.keyboard.press("ArrowUp")
    assert lines(page, 3)[:3] == ["Read: opens a book", "Rule: Answer in a line.", "Write: adds a line"]
    expect(up).to_be_focused()
    expect(up).to_have_attribute("aria-disabled", "true")
    expect(up).to_have_accessible_name("Move “Read” up, turn 3")
    page.keyboard.press("ArrowDown")
    expect(up).to_be_focused()
    order = "Rule, Read, Write, Ask, Told, Then ask, Then told, More, Time"
    expect(page.locator(".work p[role=status]")).to_have_text(f"Turn 3 now: {order}")
    down.focus()
    while lines(page, 4)[-1] != "Note: This one is done.":
        page.keyboard.press("ArrowDown")
        expect(down).to_be_focused()
    expect(page.locator(".work-list li")).to_have_count(3)
    page.click("#work-give")
    expect(page.locator(".work-result").last).to_contain_text("128 tokens saved: 176 hit, 48 before. No whole block is")
    expect(page.locator(".lesson-figure").last).to_have_text("145")
    expect(page.locator(".token-text").last).to_be_visible()
    page.reload()
    expect(page.locator(".work-result")).to_have_count(2)
    expect(page.locator(".work-result").last).to_contain_text("128 tokens saved")


def test_a_part_is_moved_in_turns_that_lack_the_other(open_page: OpenPage) -> None:
    page = open_page(LESSON, until=".article")
    continue_to(page, ".mend")
    part(page, 4, "Time").drag_to(part(page, 4, "More told"), target_position={"x": 20, "y": 3})
    assert lines(page, 4)[-3:] == ["Time: noon", "More told: Wool, and bright.", "Last: What is his name?"]
    assert [lines(page, turn)[-1] for turn in (1, 2, 3)] == ["Time: nine", "Time: ten", "Time: eleven"]


def test_on_a_phone_a_finger_drags_by_the_handle_and_taps_buttons(open_page: OpenPage) -> None:
    page = open_with_axe(open_page, LESSON, width=390, height=844, has_touch=True, until=".article")
    continue_to(page, ".mend")
    part(page, 2, "Time").locator(".mend-step").nth(1).tap()
    assert lines(page, 2)[1:3] == ["Read: opens a book", "Time: ten"]
    wait_until_still(page)
    assert violations(page) == []
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    grip = part(page, 2, "Time").locator("[data-grip]")
    part(page, 2, "Told").scroll_into_view_if_needed()
    box, goal = grip.bounding_box(), part(page, 2, "Ask").bounding_box()
    assert box and goal and min(box["width"], box["height"]) >= 40
    finger = page.context.new_cdp_session(page)
    x, y = box["x"] + 20, box["y"] + 20
    for kind, down in (("touchStart", y), ("touchMove", y + 20), ("touchMove", goal["y"] + goal["height"] - 5)):
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": down}]})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert lines(page, 2)[1:5] == ["Read: opens a book", "Write: adds a line", "Ask: Who made the lamb?", "Time: ten"]
