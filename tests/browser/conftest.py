"""Fixtures of a Chromium that opens pages of a real server."""

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from tests.browser.contexts import Contexts, ReservedContexts

# chromium-headless-shell takes three quarters of the processor time; tools/get_chromium.sh installs it
NAMES = (os.environ.get("KVTHEATER_CHROMIUM", ""), "chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)
# Chromium reads only the last list of disabled features, so the first eight repeat Playwright's list, as far as needed.
# The others open hidden pages or spare processes for every page of a test. Without them, opening a page takes two
# thirds of the processor time.
WITHOUT = [
    "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades", "MediaRouter",
    "NetworkTimeServiceQuerying", "OptimizationHints", "PaintHolding", "PreconnectToSearch",
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "SpareRendererForSitePerProcess",
]  # fmt: skip
TIMEOUT_MS = 20_000  # timeout in milliseconds, long because tests share the processors
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    f"--disable-features={','.join(WITHOUT)}",
    "--process-per-site",  # per context, see contexts.py
    "--js-flags=--no-opt --no-maglev",  # most code runs for a second, so optimizing costs more time than it saves
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start an installed Chromium, or that of Playwright."""
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        if CHROMIUM is None and not os.path.exists(playwright.chromium.executable_path):
            pytest.skip("no chromium: install it, or name one in KVTHEATER_CHROMIUM")
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def contexts(browser: Browser) -> Contexts:
    return Contexts(browser)


@pytest.fixture
def reserved_contexts(contexts: Contexts) -> Iterator[ReservedContexts]:
    """Yield contexts for this test, in the state of new ones."""
    with contexts.reserve() as reserved:
        yield reserved


@pytest.fixture
def open_page(reserved_contexts: ReservedContexts, live_server: str) -> Iterator[Callable[..., Page]]:
    """Yield a function that opens the page in a separate context. Fails on page errors and security policy violations.

    `path` may also be the address of another server. Unless `motion` is set, reduced motion is requested, because most
    tests wait for a result and not for its animation.
    """
    problems: list[str] = []

    def opened(
        path: str = "/",
        *,
        width: int = 1280,
        height: int = 800,
        locale: str = "en-US",
        connection: str = "live",
        tour: bool = False,
        opening: bool = False,
        until: str | None = None,
        motion: bool = False,
        **options: bool | str,
    ) -> Page:
        size = ViewportSize(width=width, height=height)
        options.setdefault("reduced_motion", "no-preference" if motion else "reduce")
        address = path if path.startswith("http") else live_server + path
        page = reserved_contexts.page(address, size, {"locale": locale, **options})
        if not (tour or opening):  # as for a returning visitor
            page.add_init_script("localStorage.setItem('kvtheater.tour', 'done')")
        if not opening:
            page.add_init_script("localStorage.setItem('kvtheater.opening', 'seen')")
        page.set_default_timeout(TIMEOUT_MS)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda m: problems.append(m.text) if "Content Security Policy" in m.text else None)
        page.goto(address)
        page.wait_for_selector(until or ("#opening" if opening else f"#connection.{connection}"))
        return page

    yield opened
    assert problems == []
