"""A watched server on the page: what it said, what is unknown and why, and nothing that would change it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.attached_server import attached_server
from tests.browser.axe import complain, open_with_axe, violations
from tests.browser.driving import OpenPage
from tests.unit.attach.publisher import message, stored

CONTROLS = "#btn-prefill, #btn-step, #btn-reset, #btn-fork, #prompt, #btn-add"


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "phone"])
def test_the_page_follows_it_and_offers_nothing_that_would_change_it(
    open_page: OpenPage, tmp_path: Path, size: tuple[int, int]
) -> None:
    with attached_server(tmp_path) as (publisher, url):
        page = open_page(url, width=size[0], height=size[1], connection="replay")  # no link is needed
        panel = page.locator("#region-attached")
        expect(panel).to_contain_text("Known since message 0")
        expect(panel).to_contain_text(
            "1 contents are known to be cached; of the other 63 of 64 places nothing is known"
        )
        publisher.publish(message(stored([b"c" * 8], [9, 8, 7, 6], 4)))
        expect(panel).to_contain_text("2 contents are known to be cached")
        expect(page.locator("#attached-badge")).to_be_visible()
        assert page.locator(CONTROLS).count() == 0
        expect(panel).to_contain_text("nothing here can change it")
        unknown = panel.locator(".attached-unknowns dl > div")
        assert unknown.count() == 11
        for one in unknown.all():
            assert len(one.locator("dd").inner_text()) > 10  # the reason
        expect(panel.locator("dd.is-unknown")).to_have_count(7)  # no metrics: unknown, not 0
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0


@pytest.mark.parametrize("distance", ["look", "room"])
def test_no_distance_shows_what_is_unknown(open_page: OpenPage, tmp_path: Path, distance: str) -> None:
    with attached_server(tmp_path) as (_, url):
        page = open_page(f"{url}/?recording=attached&distance={distance}", connection="replay")
        expect(page.locator("#region-attached")).to_contain_text("Known since message 0")
        assert page.locator("#region-memory, #region-stage, .look").count() == 0


@pytest.mark.parametrize(("locale", "theme"), [("en-US", "light"), ("zh-CN", "dark")])
def test_it_is_accessible(open_page: OpenPage, tmp_path: Path, locale: str, theme: str) -> None:
    with attached_server(tmp_path) as (_, url):
        page = open_with_axe(open_page, url, locale=locale, connection="replay", color_scheme=theme)
        page.locator("#region-attached .branches").wait_for()
        complain({f"{locale}, {theme}": violations(page)})
