"""Makes the picture that previews of links show: `python -m tools.preview`.

It is the opening at 1200 × 630, at the moment when the two counters stand beside each other, photographed in Chromium.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading

from playwright.sync_api import sync_playwright
from werkzeug.serving import make_server

from app.paths import static_dir
from app.server import create_app
from app.settings import ServerSettings
from app.site.export import PICTURE

SIZE = (1200, 630)
MOMENT = 22.9  # seconds of the opening


def main() -> int:
    """Photograph it. Returns the exit status."""
    chromium = os.environ.get("KVTHEATER_CHROMIUM") or shutil.which("chromium")
    server = make_server("127.0.0.1", 0, create_app(None, ServerSettings()), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}, locale="en-US", color_scheme="light")
        page.goto(f"http://127.0.0.1:{server.port}/")
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
