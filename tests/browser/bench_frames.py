"""Measure frame times, the time to the first picture, and the page's memory, in a real browser over loopback.

    python -m tests.browser.bench_frames [--steps N] [--long N] [--profile]

Frames: about 500 prompt tokens and some decode steps in a pool of 256 blocks of 4 slots; then a walk through
the log with the arrow keys, forwards and back, every step with its motion. A frame time is the distance
between the timestamps of two animation frames in a row while something moves (`requestAnimationFrame` in the
page); beside it, from Chromium's tracing, how long the page's scripts ran in each animation frame and how
many frames laid the page out in their midst.
First picture: from the start of the navigation to the first paint with content, and to the first frame that
shows a live, empty pool. Memory: the heap after garbage collection before and after a long run as fast as it
goes.
Prints JSON.
"""

import argparse
import json
import statistics
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import torch
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from engine.setup.machine import machine_facts
from tests.browser.conftest import CHROMIUM
from tests.browser.driving import SENT
from tests.own_server import own_server

ROOT = Path(__file__).parents[2]
PROMPT = "春江潮水连海平，海上明月共潮生。滟滟随波千万里，何处春江无月明。" * 16  # 32 tokens each
SETTINGS = "block_size=4&num_blocks=256&ignore_eos=1&max_num_seqs=1"
SMOOTH = 20.0  # ms

WATCH_ARRIVAL = """() => {
  globalThis.arrived = null;
  new MutationObserver(() => {
    const live = document.querySelector('#connection.live');
    if (live && document.documentElement.dataset.painted !== undefined) globalThis.arrived ??= performance.now();
  }).observe(document, { attributes: true, childList: true, subtree: true });
}"""

# Walks with the arrow keys: the next press comes when the requested record is drawn and at rest for three frames.
WALK = """([count, back]) => new Promise((resolve) => {
  const shown = document.documentElement.dataset;
  const press = { key: back ? 'ArrowLeft' : 'ArrowRight', bubbles: true, cancelable: true };
  const times = [];
  let last = null;
  let asked = null;
  let atRest = 3;
  const look = (now) => {
    const moving = shown.moving === 'true';
    if (last !== null && moving) times.push(now - last);
    last = moving ? now : null;
    atRest = moving || shown.viewIndex === asked ? 0 : atRest + 1;
    if (atRest >= 3 && count === 0) return resolve(times);
    if (atRest >= 3) {
      count -= 1;
      asked = shown.viewIndex;
      document.body.dispatchEvent(new KeyboardEvent('keydown', press));
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})"""


def main() -> None:
    """Start a server, measure, stop the server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="records walked over, forwards and back")
    parser.add_argument("--long", type=int, default=2000, help="steps of the long run; 0 leaves it out")
    parser.add_argument("--profile", action="store_true", help="also the functions that took most of the walk")
    args = parser.parse_args()
    with own_server("--enforce-eager") as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        report: dict[str, Any] = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": msgspec.to_builtins(machine_facts(torch.device("cpu"))),
            "first_picture": first_picture(browser, url),
            "frames": frames(browser, url, args.steps, args.profile),
        }
        if args.long:
            report["memory"] = memory(browser, url, args.long)
        browser.close()
    print(json.dumps(report, indent=2, ensure_ascii=False))


def open_page(browser: Browser, address: str) -> Page:
    """Open the page at 1280x800 as a returning visitor."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}, bypass_csp=True).new_page()
    page.add_init_script("for (const one of ['tour', 'opening']) localStorage.setItem(`kvtheater.${one}`, 'seen')")
    page.add_init_script(f"({WATCH_ARRIVAL})()")
    page.set_default_timeout(60_000)
    page.goto(address)
    page.wait_for_selector("#btn-prefill:not([disabled])")
    return page


def first_picture(browser: Browser, url: str, runs: int = 5) -> dict[str, float]:
    """Return medians over fresh contexts, after one visit that is not counted."""
    paints, arrivals = [], []
    for _ in range(runs + 1):
        page = open_page(browser, url)
        page.wait_for_function("globalThis.arrived !== null")
        paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        arrivals.append(page.evaluate("globalThis.arrived"))
        page.context.close()
    return {
        "first_contentful_paint_ms": round(statistics.median(paints[1:]), 1),
        "live_empty_pool_ms": round(statistics.median(arrivals[1:]), 1),
    }


def frames(browser: Browser, url: str, steps: int, profile: bool) -> dict[str, Any]:
    """Return the frame times of a walk over `steps` decode records, and back."""
    page = open_page(browser, f"{url}?{SETTINGS}&max_tokens={steps + 1}&speed=0")
    submit(page, PROMPT)
    page.click("#btn-run")
    wait_for_end(page, steps + 2)
    tokens = int(page.locator(".token").first.get_attribute("aria-setsize") or 0)
    walk(page, 2, back=True)  # warm
    walk(page, 2, back=False)
    devtools = page.context.new_cdp_session(page)
    if profile:
        devtools.send("Profiler.enable")
        devtools.send("Profiler.start")
    trace = start_tracing(devtools)
    back = walk(page, steps - 1, back=True)
    forth = walk(page, steps - 1, back=False)
    scripts, layouts = animation_frames(stop_tracing(devtools, page, trace))
    report = {
        "tokens": tokens,
        "blocks": 256,
        "steps": 2 * (steps - 1),
        "back": spread(back),
        "forth": spread(forth),
        "script_in_a_frame": spread(scripts),
        "frames_laid_out_in_their_midst": layouts,
        "columns_in_the_document": page.locator(".token").count(),
    }
    if profile:
        report["profile"] = busiest(devtools.send("Profiler.stop")["profile"])
    page.context.close()
    return report


def memory(browser: Browser, url: str, steps: int) -> dict[str, float]:
    """Return the MiB of the page's heap and of its array buffers, before and after `steps` engine steps."""
    page = open_page(browser, f"{url}?{SETTINGS}&max_tokens=500&speed=0")
    devtools = page.context.new_cdp_session(page)
    before = heap(devtools)
    for _ in range(-(-steps // 500)):
        submit(page, "床前明月光，")
    page.click("#btn-run")
    page.wait_for_function(f"Number(document.documentElement.dataset.numRecords) >= {steps}", timeout=900_000)
    page.wait_for_timeout(2000)
    after = heap(devtools)
    report = {
        "records": float(page.evaluate("Number(document.documentElement.dataset.numRecords)")),
        "heap_before_mib": before[0],
        "heap_after_mib": after[0],
        "buffers_before_mib": before[1],
        "buffers_after_mib": after[1],
        "elements": float(page.evaluate("document.querySelectorAll('*').length")),
    }
    page.context.close()
    return report


def submit(page: Page, text: str) -> None:
    page.fill("#prompt", text)
    page.click("#btn-add")
    page.wait_for_function(SENT)


def wait_for_end(page: Page, records: int) -> None:
    page.wait_for_function(f"Number(document.documentElement.dataset.painted) >= {records - 1}")
    page.wait_for_timeout(1500)


def walk(page: Page, count: int, *, back: bool) -> list[float]:
    page.evaluate("document.activeElement?.blur()")
    return [float(t) for t in page.evaluate(WALK, [count, back])]


def heap(devtools: CDPSession) -> tuple[float, float]:
    """Return the MiB in use after garbage collection: objects, and their buffers."""
    devtools.send("HeapProfiler.collectGarbage")
    usage = devtools.send("Runtime.getHeapUsage")
    return round(usage["usedSize"] / 2**20, 1), round(usage.get("backingStorageSize", 0) / 2**20, 1)


def start_tracing(devtools: CDPSession) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    devtools.on("Tracing.dataCollected", lambda message: events.extend(message["value"]))
    categories = "devtools.timeline,blink,toplevel"
    devtools.send("Tracing.start", {"transferMode": "ReportEvents", "categories": categories})
    return events


def stop_tracing(devtools: CDPSession, page: Page, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    done: list[Any] = []
    devtools.on("Tracing.tracingComplete", lambda message: done.append(message))
    devtools.send("Tracing.end")
    for _ in range(400):
        if done:
            break
        page.wait_for_timeout(50)
    return events


def animation_frames(events: list[dict[str, Any]]) -> tuple[list[float], int]:
    """Return the milliseconds of scripts in each animation frame, and the number of frames with a layout inside."""
    fired = [e for e in events if e.get("name") == "FireAnimationFrame" and e.get("ph") == "X"]
    layouts = [e for e in events if e.get("name") == "Layout" and e.get("ph") == "X"]
    forced = sum(
        any(f["tid"] == at["tid"] and f["ts"] <= at["ts"] <= f["ts"] + f["dur"] for at in layouts) for f in fired
    )
    return [f["dur"] / 1000 for f in fired], forced


def spread(times: list[float]) -> dict[str, float]:
    """Return count, median, 95th percentile, maximum, and the share below 20 ms."""
    cuts = statistics.quantiles(times, n=20) if len(times) > 1 else [0.0]
    return {
        "count": len(times),
        "median_ms": round(statistics.median(times), 2),
        "p95_ms": round(cuts[-1], 2),
        "max_ms": round(max(times), 1),
        "share_under_20_ms": round(sum(t < SMOOTH for t in times) / len(times), 4),
    }


def busiest(profile: dict[str, Any], count: int = 25) -> list[str]:
    """Return the functions with the most self time."""
    names = {
        node["id"]: f"{node['callFrame']['functionName'] or '(anonymous)'} {node['callFrame']['url'].split('/js/')[-1]}"
        f":{node['callFrame']['lineNumber'] + 1}"
        for node in profile["nodes"]
    }
    spent: Counter[str] = Counter()
    for node, delta in zip(profile["samples"], profile["timeDeltas"], strict=True):
        spent[names[node]] += delta
    return [f"{time / 1000:.0f} ms {name}" for name, time in spent.most_common(count)]


if __name__ == "__main__":
    main()
