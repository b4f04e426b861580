"""`kvtheater attach` beside a server that says 10,000 events a second: what is lost, how late it is, what it costs.

    python -m tests.load.attach_rate [--rate 10000] [--seconds 60] [--keep]   --keep writes tests/load/attach_rate.json

A process of its own publishes as vLLM does: requests with shared beginnings, in a pool that is full, so that for each
block that is stored another one is removed. It is watched twice, without a page and with one that is open in Chromium.
The recorded log must have every event and end with the contents that the publisher has. A message is late by how much
longer it took to the log than the fastest did. The page follows the newest record: at first it has the log, and once
that is long it asks for windows. How old what it shows is, its heap, and the process that surveys the log for it are
looked at every few seconds. Bars are for a quiet machine; the load that there was is in the record.
"""

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.operations import KnownSince, Removed, Stored
from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.load.record import Measuring
from tests.load.viewers import Figures
from tests.unit.monitor.publisher import Publisher, message, removed, stored

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_suffix(".json")
BARS = {"lost": 0, "late_ms_p99": 1000.0, "most_heap_mb": 500.0}  # the last is the page's
BLOCK_SIZE, NUM_BLOCKS = 16, 20_000
PREFIXES, PREFIX_BLOCKS, OWN_BLOCKS = 400, 8, 2
MESSAGES = 100  # a second
SETTLE = 60.0  # seconds in which the last message must arrive
LOOK = 3  # seconds between two looks at the page
SHOWN = """() => Promise.all(['net/log_index', 'state/store'].map((m) => import(`/static/js/${m}.js`)))
  .then(([indexed, store]) => store.longRun.peek()
    ? { record: indexed.shown.peek()?.at ?? -1, windows: true }
    : { record: store.drawnIndex.peek(), windows: false })"""


def events() -> Iterator[dict[str, Any]]:
    """Yield events without end: blocks stored for requests, and the removals, oldest first, that make room for them."""
    draw, numbers = random.Random(0), count()
    cached: dict[bytes, None] = {}

    def chain(parent: bytes | None, length: int) -> Iterator[dict[str, Any]]:
        hashes = [next(numbers).to_bytes(32, "big") for _ in range(length)]
        while len(cached) + length > NUM_BLOCKS:
            oldest = next(iter(cached))
            del cached[oldest]
            yield removed([oldest])
        cached.update(dict.fromkeys(hashes))
        tokens = [draw.randrange(150_000) for _ in range(BLOCK_SIZE * length)]
        yield stored(hashes, tokens, BLOCK_SIZE, parent, group_idx=0)

    ends: dict[int, bytes] = {}
    while True:
        prefix = draw.randrange(PREFIXES)
        if ends.get(prefix) not in cached:
            for event in chain(None, PREFIX_BLOCKS):
                yield event
            ends[prefix] = event["block_hashes"][-1]
        yield from chain(ends[prefix], OWN_BLOCKS)


def publish(rate: int, seconds: float) -> None:
    """Run the publisher's process: print the addresses, wait for a line, publish, and print a summary."""
    with Publisher() as publisher:
        print(json.dumps({"events": publisher.events, "replay": publisher.replay}), flush=True)
        sys.stdin.readline()
        each, coming, cached = rate // MESSAGES, events(), set[bytes]()
        began, number, num_events, behind = time.monotonic(), 0, 0, 0.0
        for number in range(int(seconds * MESSAGES)):
            batch = [next(coming) for _ in range(each)]
            wait = began + number / MESSAGES - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            behind = max(behind, -wait)
            publisher.publish(message(*batch, ts=time.time()))
            num_events += each
            for event in batch:
                (cached.update if event["type"] == "BlockStored" else cached.difference_update)(event["block_hashes"])
        took = time.monotonic() - began
        print(
            json.dumps(
                {
                    "messages": number + 1,
                    "events": num_events,
                    "events_per_second": round(num_events / took),
                    "behind_ms": round(1000 * behind, 1),  # of its own clock, at most
                    "cached": checksum(cached),
                }
            ),
            flush=True,
        )
        sys.stdin.readline()  # it answers replays until then


def checksum(hashes: Iterable[bytes]) -> int:
    """Return the checksum of a set."""
    return zlib.crc32(b"".join(sorted(hashes)))


def read(path: Path, published: dict[str, Any]) -> dict[str, Any]:
    """Return what the recorded log has of the publisher's messages."""
    places: dict[int, bytes] = {}
    took, num_messages, num_replayed, num_gaps = [], 0, 0, 0
    with TraceReader(path) as log:
        for index in range(len(log)):
            record = log.record(index)
            for op in record.ops:
                if isinstance(op, KnownSince):
                    num_gaps += op.reason != "attached"
                    places.clear()
                elif isinstance(op, Stored):
                    places[op.place] = op.block_hash
                elif isinstance(op, Removed) and not op.num_left:
                    del places[op.place]
            if record.seen is not None and record.seen.published is not None:
                num_messages += 1
                num_replayed += record.seen.replayed
                took.append(record.timing.at - record.seen.published)
        megabytes = log.num_bytes / 1e6
    findings = [one.message for one in check(path)]
    late = sorted(1000 * (one - min(took)) for one in took)
    return {
        "lost": published["messages"] - num_messages,
        "gaps": num_gaps,
        "replayed": num_replayed,
        "is_same": checksum(places.values()) == published["cached"],
        "findings": findings[:3],
        "late_ms_median": round(statistics.median(late), 1),
        "late_ms_p99": round(late[int(0.99 * len(late))], 1),
        "late_ms_most": round(late[-1], 1),
        "log_mb": round(megabytes, 1),
    }


def heap_mb(page: Page) -> float:
    """Return the heap of the page's scripts after a collection, in MB."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    found = session.send("Runtime.getHeapUsage")
    session.detach()
    used = sum(float(found.get(name, 0)) for name in ("usedSize", "embedderHeapUsedSize", "backingStorageSize"))
    return round(used / 1e6, 1)


def shown(page: Page) -> dict[str, Any]:
    """Return the record that the page shows (-1: none yet), whether it reads windows, and the time of this reading."""
    found: dict[str, Any] = page.evaluate(SHOWN)
    return {**found, "at": time.time()}


def until_last(page: Page, last: int) -> float | None:
    """Return the seconds until the page shows record `last`; None: not within the limit."""
    began = time.monotonic()
    while time.monotonic() - began < SETTLE:
        if shown(page)["record"] == last:
            return round(time.monotonic() - began, 1)
        time.sleep(0.1)
    return None


def samples(path: Path, seen: list[dict[str, Any]], began: float) -> list[dict[str, Any]]:
    """Return the samples with the age of the shown record since its message was published."""
    found = []
    with TraceReader(path) as log:
        for one in seen:
            record = log.record(one["record"]).seen if one["record"] >= 0 else None
            old = None if record is None or record.published is None else round(one["at"] - record.published, 2)
            numbers = {"seconds": round(one["at"] - began, 1), "heap_mb": one["heap_mb"], "old_seconds": old}
            found.append({**numbers, "windows": one["windows"]})
    return found


class Survey:
    """Resource use of the process that indexes the log for the page, as a child of the server."""

    def __init__(self, server: int) -> None:
        self._server, self.rss_mib, self.cpu_seconds = server, 0, 0.0

    def look(self) -> None:
        """Update the peak memory and the processor time of the server's child processes."""
        for task in Path(f"/proc/{self._server}/task").glob("*/children"):
            for pid in task.read_text(encoding="utf-8").split():
                figures = Figures(int(pid))
                self.rss_mib = max(self.rss_mib, figures.facts()["rss"])
                self.cpu_seconds = max(self.cpu_seconds, figures.processor_seconds())


def measured(rate: int, seconds: float, browser: Browser | None, folder: Path) -> dict[str, Any]:
    """Measure one run. `browser`: where a page follows it; None: without a viewer."""
    path = folder / "seen.kvtrace"
    publisher = subprocess.Popen(
        [sys.executable, "-m", "tests.load.attach_rate", "--publish", "--rate", str(rate), "--seconds", str(seconds)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert publisher.stdin is not None and publisher.stdout is not None
    where = json.loads(publisher.stdout.readline())
    sizes = ["--block-size", str(BLOCK_SIZE), "--num-blocks", str(NUM_BLOCKS), "--record", str(path)]
    addresses = ["--events", where["events"], "--replay", where["replay"], "--port", "0", "--data-dir", str(folder)]
    server = subprocess.Popen(
        [sys.executable, "-m", "app", "attach", *addresses, *sizes], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found
        figures, survey, page, seen = Figures(server.pid), Survey(server.pid), None, list[dict[str, Any]]()
        if browser is not None:
            page = browser.new_page()
            page.add_init_script(
                "localStorage.setItem('kvtheater.tour','done');localStorage.setItem('kvtheater.opening','seen')"
            )
            page.goto(found[0])
            page.locator("#region-monitor").wait_for()  # a selector that is waited for would hold what it found
        publisher.stdin.write("\n")
        publisher.stdin.flush()
        rss, worked, began, since = [figures.facts()["rss"]], figures.processor_seconds(), time.monotonic(), time.time()
        while time.monotonic() - began < seconds:
            time.sleep(1)
            rss.append(figures.facts()["rss"])
            survey.look()
            if page is not None and len(rss) % LOOK == 0:
                seen.append({**shown(page), "heap_mb": heap_mb(page)})
        published = json.loads(publisher.stdout.readline())
        cpu = (figures.processor_seconds() - worked) / (time.monotonic() - began)
        size, over = -1, time.monotonic()
        while path.stat().st_size != size and time.monotonic() - over < SETTLE:
            size = path.stat().st_size
            time.sleep(0.5)
        more: dict[str, Any] = {}
        if page is not None:
            with TraceReader(path) as log:
                last = len(log) - 1
            more = {"page_behind_seconds": until_last(page, last)}
            seen.append({**shown(page), "heap_mb": heap_mb(page)})
            more |= {"page": samples(path, seen, since), "most_heap_mb": max(one["heap_mb"] for one in seen)}
            more |= {"survey_rss_mib": survey.rss_mib, "survey_cpus": round(survey.cpu_seconds / seconds, 2)}
            page.close()
        publisher.stdin.write("\n")
        publisher.stdin.flush()
    finally:
        for process in (server, publisher):
            process.terminate()
            process.wait()
    tenths = [rss[len(rss) * i // 10] for i in range(10)]
    return {
        "publisher": published,
        "server_rss_mib": [*tenths, rss[-1]],
        "server_cpus": round(cpu, 2),
        **more,
        **read(path, published),
    }


def main() -> int:
    """Measure; exit status 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=10_000, help="events a second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--keep", action="store_true", help=f"write {RECORD.name}")
    parser.add_argument("--publish", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.publish:
        publish(given.rate, given.seconds)
        return 0
    measuring, runs = Measuring(), dict[str, dict[str, Any]]()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for name, viewer in (("alone", None), ("with_a_page", browser)):
            with tempfile.TemporaryDirectory() as folder:
                runs[name] = measured(given.rate, given.seconds, viewer, Path(folder))
        chromium = browser.version
        browser.close()
    record = {
        "rate": given.rate,
        "seconds": given.seconds,
        "blocks": NUM_BLOCKS,
        **runs,
        "bars": BARS,
    }
    measuring.record(record, RECORD if given.keep else None, chromium=chromium)
    missed = [(name, bar) for name, run in runs.items() for bar, most in BARS.items() if run.get(bar, 0) > most]
    missed += [
        (name, "page_behind_seconds") for name, run in runs.items() if run.get("page_behind_seconds", 0.0) is None
    ]
    missed += [(name, "is_same") for name, run in runs.items() if not run["is_same"] or run["findings"]]
    for name, bar in missed:
        print(f"missed: {bar} {name}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
