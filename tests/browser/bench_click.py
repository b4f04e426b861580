"""From click on Step to painted, in a real browser over loopback with the bundled model.

    python -m tests.browser.bench_click [--steps N]

Each click is timed inside the page: from the click event to the first animation frame after the page has drawn the new
record. Prints and stores the median and the 95th percentile, for a page that captures everything.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import torch
from playwright.sync_api import sync_playwright

from engine.machine import machine_facts

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "engine" / "bench" / "results" / "click_to_paint.json"

CLICK = """() => new Promise((resolve) => {
  const root = document.documentElement;
  const before = Number(root.dataset.painted);
  const start = performance.now();
  document.querySelector('#btn-step').click();
  const look = () => {
    if (Number(root.dataset.painted) > before) requestAnimationFrame(() => resolve(performance.now() - start));
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})"""


def main() -> None:
    """Start a server, click, measure, stop the server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()
    server = subprocess.Popen(
        [sys.executable, "-m", "app", "serve", "--enforce-eager", "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout
        url = next(m.group() for line in server.stdout if (m := re.search(r"http://127\.0\.0\.1:\d+\S*", line)))
        times = clicks(url, args.steps)
    finally:
        server.terminate()
        server.wait(20)
    cuts = statistics.quantiles(times, n=20)
    report = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "what": "click on Step to painted, milliseconds, bundled model, all layers and heads captured, 1280x800",
        "steps": len(times),
        "median_ms": round(statistics.median(times), 1),
        "p95_ms": round(cuts[-1], 1),
        "machine": msgspec.to_builtins(machine_facts(torch.device("cpu"))),
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"median {report['median_ms']} ms, p95 {report['p95_ms']} ms over {len(times)} clicks")


def clicks(url: str, steps: int) -> list[float]:
    """Milliseconds of each click, after a prefill and three clicks to warm up."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800}, bypass_csp=True)
        page.goto(url)
        page.wait_for_selector("#btn-prefill:not([disabled])")
        page.click("#btn-prefill")
        page.wait_for_function("Number(document.documentElement.dataset.numRecords) >= 2")
        times = [float(page.evaluate(CLICK)) for _ in range(steps + 3)]
        browser.close()
    return times[3:]


if __name__ == "__main__":
    main()
