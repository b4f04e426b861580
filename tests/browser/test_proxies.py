"""The page behind proxies, and without scripts or sockets."""

from playwright.sync_api import Browser, expect

from tests.browser.driving import OpenPage, prefill, step
from tests.browser.proxy import proxied

PREFIX = "/user/ann/proxy/8765"


def test_below_a_path_every_address_of_every_page_is_below_it(open_page: OpenPage, live_server: str) -> None:
    """The proxy sends no header that names the prefix: the page's own addresses are relative."""
    with proxied(live_server, PREFIX) as address:
        page = open_page(f"{address}/?max_tokens=4&ignore_eos=1", connection="live")
        missed: list[str] = []
        page.on("response", lambda answer: missed.append(answer.url) if answer.status >= 400 else None)
        page.on("request", lambda request: missed.append(request.url) if PREFIX not in request.url else None)
        prefill(page)
        step(page)
        for other in ("bench", "scale"):
            page.goto(f"{address}/{other}")
            page.wait_for_load_state("networkidle")
            inside = page.evaluate("[...document.querySelectorAll('a[href]')].map((a) => a.href)")
            assert inside and [href for href in inside if href.startswith("http://127") and PREFIX not in href] == []
        page.goto(f"{address}/j/")  # a class's way in, one folder down
        page.wait_for_load_state("networkidle")
        assert missed == []
        page.fill("#code", "nobody")
        page.locator("button").click()
        expect(page.locator("#refusal")).to_be_visible()
        assert page.url.startswith(f"{address}/j/in")
        assert page.evaluate("getComputedStyle(document.querySelector('h1')).fontFamily") != ""


def test_the_page_polls_if_websockets_hang(open_page: OpenPage, live_server: str) -> None:
    with proxied(live_server, websockets="swallow") as address:
        page = open_page(f"{address}/?max_tokens=4&ignore_eos=1", connection="live")
        expect(page.locator("#connection")).to_contain_text("by polling")
        assert "proxy" in (page.locator("#connection").get_attribute("title") or "")
        prefill(page)
        upgrades: list[str] = []
        page.on("websocket", lambda opened: upgrades.append(opened.url))
        page.reload()
        page.wait_for_selector("#connection.live")
        assert upgrades == []  # the tab remembers


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


def test_the_page_polls_if_websockets_are_refused(browser: Browser, live_server: str) -> None:
    context = browser.new_context()
    context.add_init_script("localStorage.setItem('kvtheater.tour', 'done')")
    context.add_init_script(REFUSING)
    page = context.new_page()
    page.goto(live_server)
    page.wait_for_selector("#connection.live", timeout=30_000)
    page.click("#btn-prefill")
    expect(page.locator("html")).to_have_attribute("data-painted", "1", timeout=20_000)
    context.close()
