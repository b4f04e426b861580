"""Functions that continue a lesson after it has settled."""

import re

import pytest
from playwright.sync_api import Page, expect


def wait_for_one_of(page: Page, *selectors: str) -> str:
    """Return the first of `selectors` that is visible when the lesson waits for its reader.

    Directly after a click, the previous button may still be visible instead of the next one.
    """
    expect(page.locator("#lesson")).to_have_attribute("aria-busy", "false")
    page.locator(", ".join(selectors)).last.wait_for()
    return next(one for one in selectors if page.locator(one).count())


def continue_to(page: Page, place: str) -> None:
    """Continue, with the answer "not sure", until an element matches `place`."""
    for _ in range(30):
        selector = wait_for_one_of(page, place, "#lesson-answer", "#lesson-go:enabled")
        if selector == place:
            return
        if selector == "#lesson-answer":
            page.locator(".question[data-over=false] .unsure").last.click()
            page.click("#lesson-answer")
        else:
            page.click("#lesson-go")
    pytest.fail(f"the lesson does not reach {place}")


def answer_question(page: Page, text: str) -> None:
    """Answer the open question with the option `text`."""
    question = page.locator(".question[data-over=false]").last
    question.locator(".answer", has_text=re.compile(rf"^\s*{re.escape(text)}\s*$")).click()
    page.click("#lesson-answer")
