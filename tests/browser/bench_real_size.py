"""Benchmark of a real-size model: steps with and without captures, painting of the page, and its memory.

    python -m tests.browser.bench_real_size [--steps N] [--clicks N] [--keep]

The model has 36 layers of 32 query heads and 8 KV heads (tests/real_size.py), thus 1,152 attention rows per step. In
one run of the engine, decode steps with all arrays captured alternate with steps without captures. Then a page of
1280 x 800 shows the map of all heads: measured are the time from a click on Step to the painted page, with the map of
roles and with the newest row of every head, and the page's memory before and after. `--keep` stores the results. Prints
JSON.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import torch
from playwright.sync_api import CDPSession, Page, sync_playwright

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.model.loader import load_model
from engine.setup.machine import machine_facts
from tests.browser.bench_click import CLICK, RESULTS
from tests.browser.conftest import CHROMIUM
from tests.own_server import own_server
from tests.real_size import write_model

PROMPT = "春江潮水连海平，海上明月共潮生。滟滟随波千万里，何处春江无月明。"
WARM = 3  # warm-up steps and clicks


def main() -> None:
    """Write the model, and measure the engine and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=80, help="decode steps of the engine alone")
    parser.add_argument("--clicks", type=int, default=20, help="clicks on Step with each picture")
    parser.add_argument("--keep", action="store_true", help="write the record")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = write_model(Path(folder) / "real-size")
        report: dict[str, Any] = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "what": "36 layers x 32 query heads, 8 KV heads, hidden size 256, float32; every layer and head captured",
            "machine": msgspec.to_builtins(machine_facts(torch.device("cpu"))),
            "load_average": [round(load, 1) for load in os.getloadavg()],
            "engine": engine_steps(path, args.steps),
            "page": page_steps(path, args.clicks),
        }
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    print(text, end="")
    if args.keep:
        RESULTS.with_name("real_size.json").write_text(text, encoding="utf-8")


def engine_steps(path: Path, steps: int) -> dict[str, Any]:
    """Return the median milliseconds of alternating decode steps with and without captures, and the captures' bytes."""
    model = load_model(str(path), telling=lambda stage: None)
    times: dict[bool, list[float]] = {True: [], False: []}
    sizes = []
    with Engine(model, EngineConfig(enforce_eager=True)) as engine:
        assert engine.log is not None
        engine.add_request(PROMPT, SamplingParams(max_tokens=steps + 2 * WARM, ignore_eos=True))
        engine.capture = CaptureRequest()
        engine.step()
        prefill = engine.log.num_bytes
        for number in range(steps + WARM):
            watched = number % 2 == 0
            engine.capture = CaptureRequest() if watched else None
            before, began = engine.log.num_bytes, time.perf_counter()
            engine.step()
            if number < WARM:
                continue
            times[watched].append(1000 * (time.perf_counter() - began))
            if watched:
                sizes.append(engine.log.num_bytes - before)
        blocks = engine.config.num_blocks
    watched_ms, bare_ms = (statistics.median(times[kind]) for kind in (True, False))
    return {
        "num_blocks_by_default": blocks,
        "decode_steps_of_each_kind": len(times[False]),
        "step_with_captures_ms": round(watched_ms, 1),
        "step_without_ms": round(bare_ms, 1),
        "ratio": round(watched_ms / bare_ms, 2),
        "log_bytes_a_step": round(statistics.median(sizes)),
        "log_bytes_of_the_prefill": prefill,
    }


def page_steps(path: Path, clicks: int) -> dict[str, Any]:
    """Measure the time from a click on Step to the painted page for each view of the heads, and the page's memory."""
    with own_server(str(path), "--enforce-eager") as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, bypass_csp=True)
        report = measure_page(page, url, clicks)
        browser.close()
        return report


def measure_page(page: Page, url: str, clicks: int) -> dict[str, Any]:
    page.set_default_timeout(120_000)
    page.add_init_script("for (const one of ['tour', 'opening']) localStorage.setItem(`kvtheater.${one}`, 'seen')")
    page.goto(f"{url}?detail=attention&lang=zh&max_tokens={2 * (clicks + 2 * WARM)}&ignore_eos=1")
    page.wait_for_selector("#btn-prefill:not([disabled])")
    devtools = page.context.new_cdp_session(page)
    before = heap(devtools)
    page.click("#btn-prefill")
    page.wait_for_selector(".head-map")
    report: dict[str, Any] = {"clicks_of_each_kind": clicks}
    for picture in ("matrix", "row"):  # the matrix shows the map of roles
        page.click(f"#overview-{picture}")
        times = [float(page.evaluate(CLICK)) for _ in range(clicks + WARM)][WARM:]
        name = "roles" if picture == "matrix" else "newest_rows"
        report[f"click_to_painted_{name}_ms"] = round(statistics.median(times), 1)
    page.wait_for_timeout(2000)
    after = heap(devtools)
    report["records"] = int(page.evaluate("Number(document.documentElement.dataset.numRecords)"))
    report["heap_mib"] = {"before": before[0], "after": after[0]}
    report["array_buffers_mib"] = {"before": before[1], "after": after[1]}
    report["elements"] = int(page.evaluate("document.querySelectorAll('*').length"))
    return report


def heap(devtools: CDPSession) -> tuple[float, float]:
    """Return the MiB of objects and of their buffers after garbage collection."""
    devtools.send("HeapProfiler.collectGarbage")
    usage = devtools.send("Runtime.getHeapUsage")
    return round(usage["usedSize"] / 2**20, 1), round(usage.get("backingStorageSize", 0) / 2**20, 1)


if __name__ == "__main__":
    main()
