"""When scripts or sockets are missing, the page says what to do, or does it."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

# What a browser does when a proxy in between refuses the upgrade.
REFUSING = """
window.WebSocket = class {
  constructor() { setTimeout(() => { this.onerror?.(new Event('error')); this.onclose?.({code: 1006}); }, 5); }
  send() {}
  close() {}
};
"""


def test_without_javascript_the_page_says_so_in_both_languages(browser: Browser, live_server: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(live_server)
    expect(page.locator("noscript p").first).to_contain_text("Allow JavaScript for this address")
    expect(page.locator("noscript p").last).to_contain_text("启用 JavaScript")
    expect(page.locator("noscript p").first).to_be_in_viewport()
    context.close()


def test_where_websockets_are_refused_the_page_polls(browser: Browser, live_server: str) -> None:
    context = browser.new_context()
    context.add_init_script("localStorage.setItem('kvtheater.tour', 'done')")
    context.add_init_script(REFUSING)
    page = context.new_page()
    page.goto(live_server)
    page.wait_for_selector("#connection.live", timeout=30_000)
    page.click("#btn-prefill")
    expect(page.locator("html")).to_have_attribute("data-painted", "1", timeout=20_000)
    context.close()
