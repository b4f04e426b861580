"""Measure the time from a click on Step to the painted page, in a browser over loopback with the bundled model.

    python -m tests.browser.bench_click [--steps N]

The page captures everything. It measures the time from the click event to the first animation frame after the new
record is drawn, and to the arrival of the record's bytes. Prints and stores medians and 95th percentiles.
"""

import argparse
import json
import statistics
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import torch
from playwright.sync_api import sync_playwright

from engine.setup.machine import machine_facts
from tests.browser.conftest import CHROMIUM
from tests.own_server import own_server

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "engine" / "bench" / "results" / "click_to_paint.json"

# An observer reports the painted record, as polling in each frame would be a frame late.
CLICK = """() => new Promise((resolve) => {
  const root = document.documentElement;
  const before = Number(root.dataset.painted);
  const drawn = new MutationObserver(() => {
    if (Number(root.dataset.painted) <= before) return;
    drawn.disconnect();
    requestAnimationFrame(() => resolve(performance.now() - start));
  });
  drawn.observe(root, { attributeFilter: ['data-painted'] });
  const start = performance.now();
  document.querySelector('#btn-step').click();
})"""
# Stores the arrival time of the last large message, which is the record with its arrays.
LISTEN = """
globalThis.WebSocket = class extends WebSocket {
  constructor(...given) {
    super(...given);
    this.addEventListener('message', ({ data }) => {
      if ((data.byteLength ?? data.size ?? 0) > 4096) globalThis.answered = performance.now();
    });
  }
};
addEventListener('click', () => { globalThis.clicked = performance.now(); }, { capture: true });
"""
ANSWERED = "globalThis.answered - globalThis.clicked"  # milliseconds


def main() -> None:
    """Start a server, measure the clicks, and stop the server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()
    with own_server("--enforce-eager") as url:
        times, answers = clicks(url, args.steps)
    cuts = statistics.quantiles(times, n=20)
    report = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "what": "click on Step to painted, milliseconds, bundled model, all layers and heads captured, 1280x800",
        "steps": len(times),
        "median_ms": round(statistics.median(times), 1),
        "p95_ms": round(cuts[-1], 1),
        "answered_median_ms": round(statistics.median(answers), 1),
        "machine": msgspec.to_builtins(machine_facts(torch.device("cpu"))),
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    answered = f"the record was there after {report['answered_median_ms']} ms"
    print(f"median {report['median_ms']} ms, p95 {report['p95_ms']} ms over {len(times)} clicks; {answered}")


def clicks(url: str, steps: int, screenshot: Path | None = None) -> tuple[list[float], list[float]]:
    """Return the milliseconds from each click to the painted page, and to the server's answer, after a prefill and
    three warm-up clicks.

    `screenshot`: path for an image of the final page.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, bypass_csp=True)
        page.add_init_script(LISTEN)
        page.add_init_script("for (const one of ['tour', 'opening']) localStorage.setItem(`kvtheater.${one}`, 'seen')")
        page.goto(url)
        page.wait_for_selector("#btn-prefill:not([disabled])")
        page.click("#btn-prefill")
        page.wait_for_function("Number(document.documentElement.dataset.numRecords) >= 2")
        found = [(float(page.evaluate(CLICK)), float(page.evaluate(ANSWERED))) for _ in range(steps + 3)]
        if screenshot is not None:
            page.screenshot(path=str(screenshot))
        browser.close()
    return [painted for painted, _ in found[3:]], [answered for _, answered in found[3:]]


if __name__ == "__main__":
    main()
