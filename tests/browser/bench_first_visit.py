"""Benchmark of a first visit: `python -m tests.browser.bench_first_visit`.

Measures, on a running server, the times to first paint and to interactive, the frames per second of the opening, and
the time in which a newcomer watches the opening, chooses a word, and opens the link of that fork on a phone. The first
two are also measured on a site of plain files with the connection of a slow phone and a processor four times slower.
"""

import argparse
import contextlib
import functools
import gzip
import http.server
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from app.site.export import write_futures, write_page
from engine.model.loader import load_model
from engine.model.shipped import BUNDLED
from tests.browser.conftest import ARGUMENTS, CHROMIUM

PHONE = {"width": 390, "height": 844}
SLOW = {"offline": False, "latency": 150, "downloadThroughput": 1.6e6 / 8, "uploadThroughput": 750e3 / 8}
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
FRAMES = """(seconds) => new Promise((done) => {
  const found = []; let last = null; const began = performance.now();
  const tick = (now) => {
    if (last !== null) found.push(now - last);
    last = now;
    if (now - began < 1000 * seconds) requestAnimationFrame(tick);
    else done(found);
  };
  requestAnimationFrame(tick);
})"""


def first(page: Page, address: str) -> dict[str, float | None]:
    """Return the milliseconds to the first paint, and to an opening that is ready."""
    began = time.monotonic()
    page.goto(address, wait_until="commit")  # the load event waits for files that load while the opening plays
    page.wait_for_selector("#opening[data-ready=true]")
    ready = 1000 * (time.monotonic() - began)
    return {"first paint, ms": page.evaluate(PAINT), "ready, ms": round(ready)}


def frames(page: Page, moment: float, seconds: float) -> dict[str, float]:
    """Return the frame rate of the opening from `moment` on, and the 95th percentile of the frame times."""
    page.evaluate(
        "(t) => { const e = document.querySelector('#opening-time'); e.value = t;"
        " e.dispatchEvent(new Event('input', {bubbles: true})) }",
        moment,
    )
    page.click("#opening-play")
    found: list[float] = sorted(page.evaluate(FRAMES, seconds))
    return {
        "frames a second": round(1000 * len(found) / sum(found), 1),
        "95 % within, ms": round(found[int(0.95 * len(found))], 1),
    }


def newcomer(browser: Browser, address: str) -> float:
    """Return the seconds of a newcomer's visit with the full opening."""
    began = time.monotonic()
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(address)
    page.wait_for_selector(".opening-word", timeout=70_000)
    page.click(".opening-fan li:nth-child(2) button")
    page.wait_for_selector("#intro .intro-text .generated")
    page.click("#intro-step")
    page.wait_for_timeout(500)
    phone = browser.new_page(viewport=PHONE)  # type: ignore[arg-type]
    phone.goto(page.url)
    phone.wait_for_selector("#intro .intro-text .generated")
    return round(time.monotonic() - began, 1)


def median_visit(browser: Browser, address: str, slow: bool = False) -> dict[str, float | None]:
    """Return the median of five sequential first visits. `slow`: on a slow phone."""
    found = []
    for _ in range(5):
        page = browser.new_page(viewport=PHONE) if slow else browser.new_page()  # type: ignore[arg-type]
        if slow:
            session = page.context.new_cdp_session(page)
            session.send("Network.enable")
            session.send("Network.emulateNetworkConditions", SLOW)
            session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
        found.append(first(page, address))
        page.close()
    return sorted(found, key=lambda visit: visit["ready, ms"] or 0)[2]


class CompressedFiles(http.server.SimpleHTTPRequestHandler):
    """Handler that sends compressed files, as a static host does."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            return self.send_error(404)
        body = gzip.compress(path.read_bytes(), 6)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def site() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        write_page(Path(folder) / "kv", "")
        write_futures(Path(folder) / "kv", load_model(BUNDLED))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(CompressedFiles, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/kv/"
        server.shutdown()


def main() -> None:
    """Measure, and print the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", required=True, help="address of a running server: http://127.0.0.1:PORT/")
    arguments = parser.parse_args()
    found: dict[str, object] = {}
    with sync_playwright() as playwright, site() as files:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        found["server"] = median_visit(browser, arguments.address)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        first(page, arguments.address)
        found["frames, asking"] = frames(page, 4, 5)
        found["frames, race"] = frames(page, 16, 5)
        found["frames, blocks"] = frames(page, 23, 5)
        page.close()  # its opening would affect the next measurements
        found["site, slow phone"] = median_visit(browser, files, slow=True)
        found["newcomer, s"] = newcomer(browser, arguments.address)
        browser.close()
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
