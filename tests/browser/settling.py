"""Waiting for states of the page that settle shortly after an action."""

import re
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Page, expect

SAYS_THE_SETTINGS = """import('/static/js/state/settings.js').then(({ settings, TABLE, writeQuery }) => {
  const query = writeQuery(Object.fromEntries(Object.keys(TABLE).map((name) => [name, settings[name].value])));
  return location.hash === '' && location.search === (query && `?${query}`);
})"""
MOVES = """document.getAnimations().some((animation) =>
  animation.playState === 'running' && Number.isFinite(animation.effect.getComputedTiming().endTime))"""


def comes_to(page: Page, expression: str, expected: Any) -> None:
    """Poll until the expression has this value."""
    found: Any = None
    for _ in range(400):
        found = page.evaluate(expression)
        if found == expected:
            return
        page.wait_for_timeout(50)
    pytest.fail(f"{expression} is {found!r}, not {expected!r}")


def settled(page: Page, expression: str) -> Any:
    """Return the expression's value once it has been constant for a while, such as a drawing or a position."""
    found: Any = object()
    for _ in range(200):
        before, found = found, page.evaluate(expression)
        if found == before:
            return found
        page.wait_for_timeout(150)
    pytest.fail(f"{expression} does not come to rest")


def address(page: Page) -> str:
    """Return the address's query once it describes the page's state, which it follows with a delay."""
    comes_to(page, SAYS_THE_SETTINGS, True)
    return str(page.evaluate("location.search"))


def in_address(page: Page) -> dict[str, str]:
    """Return the settings in the address."""
    return {name: values[0] for name, values in parse_qs(urlparse(address(page)).query).items()}


def theater_of(page: Page) -> str:
    """Return the session that the page follows, from its address."""
    expect(page).to_have_url(re.compile("[?&]theater="))
    return str(page.evaluate("new URLSearchParams(location.search).get('theater')"))


def resized(page: Page, width: int, height: int) -> None:
    """Resize the window, and wait until the layout has settled."""
    page.set_viewport_size({"width": width, "height": height})
    still(page)


def still(page: Page) -> None:
    """Wait until no transition of the page is in progress."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    comes_to(page, MOVES, False)
