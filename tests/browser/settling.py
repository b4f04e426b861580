"""Functions that wait for states of the page that settle shortly after an action."""

import re
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Page, expect

ADDRESS_IS_CURRENT = """import('/static/js/state/settings.js').then(({ settings, TABLE, writeQuery }) => {
  const query = writeQuery(Object.fromEntries(Object.keys(TABLE).map((name) => [name, settings[name].value])));
  return location.hash === '' && location.search === (query && `?${query}`);
})"""
IS_ANIMATING = """document.getAnimations().some((animation) =>
  animation.playState === 'running' && Number.isFinite(animation.effect.getComputedTiming().endTime))"""


def wait_for_value(page: Page, expression: str, expected: Any) -> None:
    """Poll until the expression has this value."""
    found: Any = None
    for _ in range(400):
        found = page.evaluate(expression)
        if found == expected:
            return
        page.wait_for_timeout(50)
    pytest.fail(f"{expression} is {found!r}, not {expected!r}")


def settled_value(page: Page, expression: str) -> Any:
    """Return the expression's value, such as a drawing or a position, after it has been constant for a while."""
    found: Any = object()
    for _ in range(200):
        before, found = found, page.evaluate(expression)
        if found == before:
            return found
        page.wait_for_timeout(150)
    pytest.fail(f"{expression} does not become constant")


def address(page: Page) -> str:
    """Return the query of the address after it describes the page's state."""
    wait_for_value(page, ADDRESS_IS_CURRENT, True)
    return str(page.evaluate("location.search"))


def address_settings(page: Page) -> dict[str, str]:
    """Return the settings in the address."""
    return {name: values[0] for name, values in parse_qs(urlparse(address(page)).query).items()}


def theater_of(page: Page) -> str:
    """Return the session that the page follows, from its address."""
    expect(page).to_have_url(re.compile("[?&]theater="))
    return str(page.evaluate("new URLSearchParams(location.search).get('theater')"))


def resize(page: Page, width: int, height: int) -> None:
    """Resize the window, and wait until the layout has settled."""
    page.set_viewport_size({"width": width, "height": height})
    wait_until_still(page)


def wait_until_still(page: Page) -> None:
    """Wait until no transition of the page is in progress."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    wait_for_value(page, IS_ANIMATING, False)
