"""Actions and waits that browser tests share."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

OpenPage = Callable[..., Page]
POEM = "春江潮水连海平，海上明月共潮生。"
SENT = "import('/static/js/state/prompts.js').then((prompts) => prompts.draftIsSent.value)"
PAINTED = "Number(document.documentElement.dataset.painted)"


def wait_for_record(page: Page, index: int) -> None:
    """Wait until record `index` is painted."""
    expect(page.locator("html")).to_have_attribute("data-painted", str(index), timeout=20_000)


def wait_until(page: Page, condition: str) -> None:
    """Poll until `condition` holds. Playwright's function needs eval, which the page's policy forbids."""
    for _ in range(400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"{condition} did not come true")


def wait_for_rest(page: Page, index: int) -> None:
    """Wait until record `index` is painted and no motion is in progress."""
    wait_for_record(page, index)
    expect(page.locator("html")).to_have_attribute("data-moving", "false")


def prefill(page: Page, prompt: str = POEM) -> None:
    """Submit `prompt` and compute it, in records 0 and 1."""
    page.fill("#prompt", prompt)
    page.click("#btn-prefill")
    wait_for_record(page, 1)


def add(page: Page, prompt: str) -> None:
    """Submit another `prompt`, in one record."""
    before = page.evaluate(PAINTED)
    page.fill("#prompt", prompt)
    page.click("#btn-add")
    wait_for_record(page, before + 1)


def step(page: Page, count: int = 1) -> None:
    for _ in range(count):
        before = page.evaluate(PAINTED)
        page.click("#btn-step")
        wait_for_record(page, before + 1)


def tokens(page: Page) -> list[str]:
    return page.locator(".token-text").all_inner_texts()


def num_records(page: Page) -> int:
    return int(page.locator("html").get_attribute("data-num-records") or 0)


def select(page: Page, target: str) -> None:
    page.evaluate("(t) => import('/static/js/state/store.js').then((store) => store.select(JSON.parse(t)))", target)
