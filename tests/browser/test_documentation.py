"""The documentation in a browser: found from the page, readable on a phone, in both themes."""

import pytest
from playwright.sync_api import expect

from app.documentation.render import navigation
from app.ground.paths import docs_dir
from tests.browser.axe import open_with_axe, violations
from tests.browser.driving import OpenPage

NAMES = [entry.name for entry in navigation(docs_dir())]


def test_help_leads_to_the_documentation(open_page: OpenPage) -> None:
    page = open_page()
    page.keyboard.press("?")
    with page.context.expect_page() as opened:
        page.click("#help-docs")
    documentation = opened.value
    expect(documentation.locator("h1")).to_have_text("KV Theater")
    documentation.locator("a:visible", has_text="Debug a cache").first.click()
    expect(documentation.locator("h1")).to_have_text("Debug a KV cache")
    expect(documentation.locator("[aria-current=page]")).to_have_text("Debug a cache")


def test_no_page_is_wider_than_a_phone(open_page: OpenPage) -> None:
    page = open_page("/docs/index", width=390, height=844, until="main")
    address = page.url.removesuffix("index")
    for name in NAMES:
        page.goto(address + name)
        assert page.evaluate("document.documentElement.scrollWidth") == 390, name
    page.click(".docs-menu")
    expect(page.locator(".docs-nav a").first).to_be_visible()


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("name", ["index", "reference/options"])
def test_pages_are_accessible(open_page: OpenPage, name: str, colours: str) -> None:
    assert violations(open_with_axe(open_page, f"/docs/{name}", until="main", color_scheme=colours)) == []
