"""Pool of browser contexts that tests reuse, each as empty as a new one.

A new process for the page takes a third of a visit's processor time. In a reused context, an open page of the same host
preserves the process (`--process-per-site`). Storage, cookies, cached files and routes are removed when the context is
returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, CDPSession, Error, Page, ViewportSize

MAX_IDLE = 4  # contexts, each with a process of about 100 MB
MEDIA = ("reduced_motion", "color_scheme")
KEEPER_PATH = "/static/icon.svg"  # path of the open page on any server


@dataclass
class _Pooled:
    context: BrowserContext
    options: str
    size: ViewportSize  # initial size of its pages
    keeper: Page | None = None  # open page that keeps the process
    session: CDPSession | None = None
    hosts: set[str] = field(default_factory=set)  # visited origins


class Contexts:
    """Contexts of a browser. `reserve` gives a test exclusive ones."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._free: list[_Pooled] = []

    @contextmanager
    def reserve(self) -> Iterator[ReservedContexts]:
        reserved = ReservedContexts(self)
        try:
            yield reserved
        finally:
            for pooled in reserved.pooled:
                self._take_back(pooled)

    def take(self, size: ViewportSize, options: dict[str, Any]) -> _Pooled:
        """Return a context with these options: the most recently returned one, or a new one."""
        key = repr(sorted(options.items()))
        for pooled in reversed(self._free):
            if pooled.options == key:
                self._free.remove(pooled)
                return pooled
        return _Pooled(self._browser.new_context(viewport=size, **options), key, size)

    def _take_back(self, pooled: _Pooled) -> None:
        try:
            self._clean(pooled)
        except Error:  # the test closed it, or its process has ended
            pooled.context.close()
            return
        self._free.append(pooled)
        while len(self._free) > MAX_IDLE:
            self._free.pop(0).context.close()

    def _clean(self, pooled: _Pooled) -> None:
        """Remove all pages, storage and request handlers, so that the context is like a new one."""
        for page in pooled.context.pages:
            if page is not pooled.keeper:
                pooled.hosts.add(_host(page.url))
                page.close()
        pooled.context.unroute_all(behavior="ignoreErrors")
        pooled.context.set_offline(False)
        pooled.context.clear_cookies()
        pooled.context.clear_permissions()
        if pooled.keeper is None:
            pooled.keeper = pooled.context.new_page()
            pooled.keeper.goto(max(pooled.hosts) + KEEPER_PATH)
        if pooled.session is None:
            pooled.session = pooled.context.new_cdp_session(pooled.keeper)
        # a closing page may still write to the storage in this process, which runs this command afterwards
        pooled.keeper.evaluate("localStorage.clear()")
        pooled.session.send("Network.clearBrowserCache")
        for host in pooled.hosts:
            pooled.session.send("Storage.clearDataForOrigin", {"origin": host, "storageTypes": "all"})
        pooled.hosts.clear()
        pooled.keeper.evaluate("1")  # fails if its process has ended


class ReservedContexts:
    """Contexts that one test uses until its end."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts
        self.pooled: list[_Pooled] = []

    def page(self, address: str, size: ViewportSize, options: dict[str, Any]) -> Page:
        """Open an empty page in a separate context. Its first destination will be `address`.

        Use `add_init_script` of the page, as the context's scripts remain. Size and media are set for the page only.
        """
        media = {name: options[name] for name in MEDIA if name in options}
        pooled = self._contexts.take(size, {name: value for name, value in options.items() if name not in MEDIA})
        self.pooled.append(pooled)
        pooled.hosts.add(_host(address))
        page = _new_page(pooled)
        if size != pooled.size:
            page.set_viewport_size(size)
        if media:
            page.emulate_media(**media)
        return page


def _new_page(pooled: _Pooled) -> Page:
    """Open a page from the keeper, if there is one, so that both share a process."""
    if pooled.keeper is None:
        return pooled.context.new_page()
    with pooled.context.expect_page() as opened:
        pooled.keeper.evaluate("void window.open('about:blank')")
    return opened.value


def _host(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
