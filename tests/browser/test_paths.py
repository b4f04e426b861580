"""Number of clicks on newcomers' paths, and stable layout while a page loads."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.driving import OpenPage

WATCH = """
globalThis.moved = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) globalThis.moved += one.value;
}).observe({ type: "layout-shift", buffered: true });
"""
MOVED = 0.02  # cumulative layout shift, at most

# where it begins, what is clicked ("=": typed, and sent by Enter), and what is there then
WAYS = {
    "own words after the film": ("film", ["#own-words", "=My name is Kim"], ".intro-text .prompt >> text=Kim"),
    "own words in the first look": ("look", ["#own-words", "=My name is Kim"], ".intro-text .prompt >> text=Kim"),
    "prefill and decode": ("film", ["#opening-skip", "#intro-step"], "#intro[data-records='3']"),
    "another word": ("look", ["#intro-fan", ".opening-fan li:nth-child(2) button"], "#intro[data-records]"),
    "what a model would cost": ("look", ["#intro-doors a[href=scale]"], "#scale-sizes"),
    "a lesson": ("look", ["#intro-learn", "#path-pages"], ".article"),
    "the allocator": ("look", ["#intro-allocator", "#lesson-go"], ".question"),
    "the museum": ("look", ["#intro-museum"], "#museum"),
    "agents' traffic": ("look", ["#intro-doors .intro-prompts"], "form"),
    "why a request missed": (
        "/?recording=rec-prefix",
        ["#detail-requests", "tr[data-seq] button >> nth=0"],
        ".request-timeline >> text=prefix cache",
    ),
    "the other language": ("film", ["#btn-language"], "html[lang^=zh]"),
}


def begin(open_page: OpenPage, at: str) -> Page:
    if at.startswith("/"):
        return open_page(at, connection="replay")
    if at != "film":
        return open_page(f"/?distance={at}", until="#intro" if at == "look" else "#connection.live")
    page = open_page(opening=True)
    page.wait_for_selector("#opening[data-ready=true]")
    page.locator("#opening-time").fill("44.9")
    return page


@pytest.mark.parametrize("name", WAYS)
def test_a_newcomer_reaches_each_goal_in_two_clicks(open_page: OpenPage, name: str) -> None:
    at, ways, there = WAYS[name]
    page = begin(open_page, at)
    for way in ways:
        if way.startswith("="):
            page.keyboard.type(way[1:])
            page.keyboard.press("Enter")
        else:
            page.click(way)
    expect(page.locator(there).first).to_be_visible()
    assert sum(not way.startswith("=") for way in ways) <= 2


def _late(route: Route) -> None:
    time.sleep(0.3)
    route.continue_()


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
@pytest.mark.parametrize(("width", "height"), [(1366, 768), (390, 768), (683, 384)])
def test_nothing_shifts_while_a_page_loads(open_page: OpenPage, width: int, height: int, locale: str) -> None:
    """The last size is a small laptop's window at 200 % zoom. Data arrive after a page's first picture, as over a slow
    network.
    """
    page = open_page(width=width, height=height, locale=locale)
    page.add_init_script(WATCH)
    page.route("**/api/**", _late)
    origin, moved = page.evaluate("location.origin"), dict[str, float]()
    for path, there in {
        "/?distance=bench": "#connection.live",
        "/?distance=room": "#btn-step:enabled",
        "/?distance=look": "#intro-step:enabled",
        "/?distance=learn&lesson=pages": ".article",
        "/?recording=rec-moon": "#connection.replay",
        "/scale": "#scale-sizes",
        "/bench": ".bench-headlines",
        "/prompts": "form",
        "/docs/index": "img",
        "/?distance=learn": ".path-card",
        "/j/": "form",
        "/no/such/page": "main a",
    }.items():
        page.goto(origin + path)
        page.wait_for_selector(there)
        page.wait_for_timeout(700)
        moved[path] = page.evaluate("moved")
    assert {path: value for path, value in moved.items() if value > MOVED} == {}
