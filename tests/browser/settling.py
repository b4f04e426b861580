"""Waiting for what the page comes to, where it settles a moment after what a test did."""

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
    """Ask again until the expression has this value."""
    found: Any = None
    for _ in range(400):
        found = page.evaluate(expression)
        if found == expected:
            return
        page.wait_for_timeout(50)
    pytest.fail(f"{expression} is {found!r}, not {expected!r}")


def settled(page: Page, expression: str) -> Any:
    """The expression's value when it has stayed the same for a while: what is drawn, say, or where something lies."""
    found: Any = object()
    for _ in range(200):
        before, found = found, page.evaluate(expression)
        if found == before:
            return found
        page.wait_for_timeout(150)
    pytest.fail(f"{expression} does not come to rest")


def address(page: Page) -> str:
    """The address's query as soon as it says what the page shows: it follows a moment later."""
    comes_to(page, SAYS_THE_SETTINGS, True)
    return str(page.evaluate("location.search"))


def in_address(page: Page) -> dict[str, str]:
    """The settings that the address names."""
    return {name: values[0] for name, values in parse_qs(urlparse(address(page)).query).items()}


def theater_of(page: Page) -> str:
    """The theater that the page follows, as its address says."""
    expect(page).to_have_url(re.compile("[?&]theater="))
    return str(page.evaluate("new URLSearchParams(location.search).get('theater')"))


def resized(page: Page, width: int, height: int) -> None:
    """Give the window another size, and wait until everything has its place there."""
    page.set_viewport_size({"width": width, "height": height})
    still(page)


def still(page: Page) -> None:
    """Wait until no transition of the page is under way: nothing glides, nothing fades."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    comes_to(page, MOVES, False)
