"""Browser contexts that tests reuse one after another, as empty as new ones.

A third of a visit's processor time is a new process for the page. In a reused context, a page that is open on the same
host preserves the process (`--process-per-site`); a visitor's leftovers (storage, cookies, cached files, routes) are
removed when the context is returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, CDPSession, Error, Page, ViewportSize

MOST = 4  # that wait: each is a process of some 100 MB
MEDIA = ("reduced_motion", "color_scheme")
KEEPING = "/static/icon.svg"  # what lies open, of whatever server


@dataclass
class _Kept:
    context: BrowserContext
    options: str
    size: ViewportSize  # in which it was opened; a page may be given another
    keeper: Page | None = None  # the page that keeps the process
    session: CDPSession | None = None
    hosts: set[str] = field(default_factory=set)  # where its pages have been, with scheme and port


class Contexts:
    """Contexts of a browser; `lent` is a test's share."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._free: list[_Kept] = []

    @contextmanager
    def lent(self) -> Iterator[Lent]:
        lent = Lent(self)
        try:
            yield lent
        finally:
            for kept in lent.kept:
                self._take_back(kept)

    def take(self, size: ViewportSize, options: dict[str, Any]) -> _Kept:
        """Return a context with these options: the most recently returned one, or a new one."""
        wanted = repr(sorted(options.items()))
        for kept in reversed(self._free):
            if kept.options == wanted:
                self._free.remove(kept)
                return kept
        return _Kept(self._browser.new_context(viewport=size, **options), wanted, size)

    def _take_back(self, kept: _Kept) -> None:
        try:
            self._clean(kept)
        except Error:  # the test closed it, or its process is gone
            kept.context.close()
            return
        self._free.append(kept)
        while len(self._free) > MOST:
            self._free.pop(0).context.close()

    def _clean(self, kept: _Kept) -> None:
        """Remove everything that distinguishes the context from a new one, and request handlers."""
        for page in kept.context.pages:
            if page is not kept.keeper:
                kept.hosts.add(_host(page.url))
                page.close()
        kept.context.unroute_all(behavior="ignoreErrors")
        kept.context.set_offline(False)
        kept.context.clear_cookies()
        kept.context.clear_permissions()
        if kept.keeper is None:
            kept.keeper = kept.context.new_page()
            kept.keeper.goto(max(kept.hosts) + KEEPING)
        if kept.session is None:
            kept.session = kept.context.new_cdp_session(kept.keeper)
        # what a page writes as it closes, it writes in this process: after that, for where this page is
        kept.keeper.evaluate("localStorage.clear()")
        kept.session.send("Network.clearBrowserCache")
        for host in kept.hosts:
            kept.session.send("Storage.clearDataForOrigin", {"origin": host, "storageTypes": "all"})
        kept.hosts.clear()
        kept.keeper.evaluate("1")  # whether its process still answers


class Lent:
    """Contexts that are not shared until the test ends."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts
        self.kept: list[_Kept] = []

    def page(self, address: str, size: ViewportSize, options: dict[str, Any]) -> Page:
        """Open a page in a context of its own, not yet at `address`, its first destination.

        What is to run before each page of it is the page's `add_init_script`: a context's would stay. Its size, and
        what the system says of movement and colours, are the page's alone.
        """
        media = {name: options[name] for name in MEDIA if name in options}
        kept = self._contexts.take(size, {name: value for name, value in options.items() if name not in MEDIA})
        self.kept.append(kept)
        kept.hosts.add(_host(address))
        page = _new_page(kept)
        if size != kept.size:
            page.set_viewport_size(size)
        if media:
            page.emulate_media(**media)
        return page


def _new_page(kept: _Kept) -> Page:
    """Open the page from an open page of the same site, so that it shares that one's process."""
    if kept.keeper is None:
        return kept.context.new_page()
    with kept.context.expect_page() as opened:
        kept.keeper.evaluate("void window.open('about:blank')")
    return opened.value


def _host(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
