"""What the page says when something is missing: scripts, sockets. Each says what to do, or does it."""

from __future__ import annotations

from playwright.sync_api import Browser, expect


def test_without_javascript_the_page_says_so_in_both_languages(browser: Browser, live_server: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(live_server)
    expect(page.locator("noscript")).to_contain_text("Allow JavaScript for this address")
    expect(page.locator("noscript")).to_contain_text("启用 JavaScript")
    context.close()


def test_where_websockets_are_refused_the_page_polls(browser: Browser, live_server: str) -> None:
    context = browser.new_context()
    context.add_init_script("localStorage.setItem('kvtheater.tour', 'done')")
    context.add_init_script("window.WebSocket = class { constructor() { throw new Error('refused'); } }")
    page = context.new_page()
    page.goto(live_server)
    page.wait_for_selector("#connection.live", timeout=30_000)
    page.click("#btn-prefill")
    expect(page.locator("html")).to_have_attribute("data-painted", "1", timeout=20_000)
    context.close()
