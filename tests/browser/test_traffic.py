"""Requests of an agent through the proxy appear on the page that follows its file."""

from __future__ import annotations

import importlib.util
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Page, expect

from tests.browser.driving import OpenPage
from tests.server.conftest import Server
from tests.server.running_proxy import Running
from tests.unit.prompts.sessions import chat

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("aiohttp") is None, reason="aiohttp is not installed: pip install 'kvtheater[proxy]'"
)
KEY = "sk-a-key-that-is-a-secret"
USAGE = {"prompt_tokens": 800, "prompt_tokens_details": {"cached_tokens": 640}}
ADDED = {"": r"tools were added \(\+write\)", "--private": r"tools were added \(\+#\w{6}\)"}
ANSWER = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Yes."}}], "usage": USAGE}).encode()


class Recorded(BaseHTTPRequestHandler):
    """Upstream that answers each request with a recorded response."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def upstream() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Recorded) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def ask(proxy: Running, turns: int, system: str = "", tools: tuple[str, ...] = ("read",)) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    body = chat(turns, system, tools)
    assert requests.post(f"{proxy.url}/v1/chat/completions", json=body, headers=headers, timeout=30).content == ANSWER


def turns(page: Page) -> list[str]:
    return [" ".join(text.split()) for text in page.locator("main summary").all_inner_texts()]


@pytest.mark.parametrize("mode", ["", "--private"])
def test_requests_appear_with_their_verdicts_while_the_agent_works(
    mode: str, upstream: str, tmp_path: Path, open_page: OpenPage
) -> None:
    file = tmp_path / "traffic.jsonl"
    proxy = Running(upstream, file, *filter(None, [mode]))
    server = Server(traffic=file)
    try:
        page = open_page(f"{server.url}/prompts?lang=en", until="form")
        page.click("text=Live: traffic.jsonl")
        expect(page.locator("#state")).to_have_text("Waiting for the first request in traffic.jsonl.")
        ask(proxy, 1)
        expect(page.locator("main summary")).to_have_count(1, timeout=60_000)
        expect(page.locator("#state")).to_have_text("Live: traffic.jsonl. New requests appear here.")
        page.click("main summary")
        ask(proxy, 2)
        expect(page.locator("main summary")).to_have_count(2, timeout=60_000)
        expect(page.locator('details[data-request="0"]')).to_have_attribute("open", "")
        assert page.evaluate("document.activeElement.closest('details')?.dataset.request") == "0"
        ask(proxy, 3, tools=("read", "write"))
        expect(page.locator("main .cause")).to_have_text(re.compile(ADDED[mode]), timeout=60_000)
        expect(page.locator("main section:last-of-type h3")).to_have_count(1)
        page.click('details[data-request="2"] summary')
        shown = page.locator("main").inner_text()
        assert "reported" in shown and "80.0 %" in shown
        assert ("Texts are hashed" in shown, '"name":"write"' in shown) == ((True, False) if mode else (False, True))
        assert KEY not in page.content() and KEY not in file.read_text()
        page.select_option("select[name=policy]", "openai")
        expect(page.locator("tr.chosen th")).to_have_text("OpenAI", timeout=60_000)
        server.close()
        expect(page.locator("#state")).to_have_text("The server does not answer.", timeout=60_000)
    finally:
        server.close()
        proxy.stop()
