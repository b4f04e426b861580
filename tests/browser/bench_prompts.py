"""Measure how smoothly the report of an agent's day is drawn in a real browser.

Usage: python -m tests.browser.bench_prompts [FILE.html] [--requests 1000] [--tokens 100000]
Without a file the report is made of the day of `tests.load.prompts`. The page is scrolled through from top to bottom;
then links of breaks are clicked and turns opened. A frame time is the distance between two animation frames in a row.
Prints JSON.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.load.prompts import write_day

WATCH = """() => {
  globalThis.frames = [];
  let last = performance.now();
  const look = (now) => { frames.push(now - last); last = now; requestAnimationFrame(look); };
  requestAnimationFrame(look);
}"""
SCROLL = """(pixels) => new Promise((resolve) => {
  const step = () => {
    const before = scrollY;
    scrollBy(0, pixels);
    if (scrollY === before) resolve(); else requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""
EMPTY = "<div style='height: 30000px; background: linear-gradient(red, blue)'></div>"  # what the machine itself can
STEP = 120  # pixels of a frame: a fast wheel


def frames(page: Page) -> dict[str, float]:
    found = page.evaluate("() => globalThis.frames.splice(0)")[1:]
    cuts = statistics.quantiles(found, n=20)
    late = sum(one > 1.5 * 1000 / 60 for one in found)
    return {"frames": len(found), "p50_ms": round(cuts[9], 1), "p95_ms": round(cuts[18], 1), "late": late}


def measure(page: Page, file: Path) -> dict[str, object]:
    page.set_content(EMPTY)
    page.evaluate(WATCH)
    page.evaluate(SCROLL, STEP)
    nothing = frames(page)
    began = time.monotonic()
    page.goto(file.as_uri())
    found: dict[str, object] = {"bytes": file.stat().st_size, "loaded_s": round(time.monotonic() - began, 2)}
    page.evaluate(WATCH)
    page.evaluate(SCROLL, STEP)
    found |= {"scrolling_an_empty_page": nothing, "scrolling": frames(page)}
    page.evaluate("() => scrollTo(0, 0)")
    for link in page.locator("table.worst a").all():
        link.click()
        page.locator(":target summary").click()
        page.wait_for_timeout(200)
        page.evaluate("() => scrollTo(0, 0)")
    found["clicking"] = frames(page)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = arguments.file or Path(folder) / "day.html"
        if arguments.file is None:
            write_day(Path(folder) / "day.jsonl", arguments.requests, arguments.tokens)
            command = [sys.executable, "-m", "app", "prompts", f"{folder}/day.jsonl", "--html", str(file)]
            subprocess.run(command, check=False)  # its status is 1: the day has breaks
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1366, "height": 768})
        print(json.dumps(measure(page, file.resolve()), indent=2))
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
