"""Write the preview picture of links: `python -m tools.preview`.

The picture is a Chromium screenshot of the opening at 1200 × 630 pixels, at a time when both counters are visible.
"""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

from app.ground.paths import static_dir
from app.site.export import PICTURE, write_page

SIZE = (1200, 630)
MOMENT = 22.9  # seconds of the opening


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Request handler of static files, without logging."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def main() -> int:
    """Take the screenshot. Returns the exit status."""
    chromium = os.environ.get("KVTHEATER_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        write_page(Path(folder) / "site", "")
        handler = functools.partial(Quiet, directory=f"{folder}/site")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}, locale="en-US", color_scheme="light")
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        page.wait_for_selector("#opening[data-ready=true]")
        page.click("#opening-play")
        page.locator("#opening-time").fill(str(MOMENT))
        page.wait_for_timeout(500)
        page.screenshot(path=static_dir() / PICTURE)
        browser.close()
        server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
