"""Walking through a lesson: the next action is chosen once the lesson has settled."""

import re

import pytest
from playwright.sync_api import Page, expect


def stands_at(page: Page, *places: str) -> str:
    """Return the first of `places` that is visible, once the lesson waits for its reader.

    Straight after a press a button of before may still be there, and what comes instead of it not yet.
    """
    expect(page.locator("#lesson")).to_have_attribute("aria-busy", "false")
    page.locator(", ".join(places)).last.wait_for()
    return next(place for place in places if page.locator(place).count())


def unsurely_to(page: Page, place: str) -> None:
    """Continue, answering "not sure", until there is a `place`."""
    for _ in range(30):
        at = stands_at(page, place, "#lesson-answer", "#lesson-go:enabled")
        if at == place:
            return
        if at == "#lesson-answer":
            page.locator(".question[data-over=false] .unsure").last.click()
            page.click("#lesson-answer")
        else:
            page.click("#lesson-go")
    pytest.fail(f"the lesson does not come to {place}")


def give(page: Page, text: str) -> None:
    """Answer the open question with the option `text`."""
    question = page.locator(".question[data-over=false]").last
    question.locator(".answer", has_text=re.compile(rf"^\s*{re.escape(text)}\s*$")).click()
    page.click("#lesson-answer")
