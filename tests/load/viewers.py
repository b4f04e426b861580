"""Measure how long a record takes to reach its viewers, and what viewers cost the engine.

    python -m tests.load.viewers --viewers 500 --seconds 60 --speed 2 --drops 0.3

A server in a process of its own steps the bundled model; viewers in this one follow it, some of them dropped at random
again and again. Printed: the time from a record's append to its receipt, the engine's steps a second without and with
viewers, the server's threads, memory and processor time. Fails when a viewer ends without exactly the log's records.
"""

import argparse
import heapq
import random
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

import psutil
import requests
import socketio

from engine.trace.log import TraceReader
from tests.load.client import Viewer

PROMPT = "春江潮水连海平，海上明月共潮生。"
SAMPLING = {"max_tokens": 200, "ignore_eos": True}
SETTLE = 30.0  # seconds in which the last records must arrive


class Figures:
    """Figures of a process from the system."""

    def __init__(self, pid: int) -> None:
        self._system = psutil.Process(pid)

    def facts(self) -> dict[str, int]:
        """Return the number of threads, and resident MiB."""
        return {"threads": self._system.num_threads(), "rss": self._system.memory_info().rss >> 20}

    def processor_seconds(self) -> float:
        return sum(self._system.cpu_times()[:2])


class Process(Figures):
    """Process of the load test."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        super().__init__(self._process.pid)

    def first_line(self) -> str:
        """Return the next line of the server's output."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def stop(self) -> float:
        """Return the seconds until the process has ended after SIGTERM."""
        began = time.monotonic()
        self._process.terminate()
        self._process.wait(60)
        return time.monotonic() - began


class Server(Process):
    """Server process, and the times of its records."""

    def __init__(self, *arguments: str) -> None:
        """`arguments`: of tests.load.served."""
        super().__init__([sys.executable, "-m", "tests.load.served", *arguments])
        self.port = int(self.first_line().split()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.appended: list[float] = []  # CLOCK_MONOTONIC of each record
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            index, at = line.split()
            assert int(index) == len(self.appended)
            self.appended.append(float(at))


class Crowd:
    """The viewers, their latencies and their drops."""

    def __init__(self, server: Server, theater: str, count: int) -> None:
        self._server = server
        self._selector = selectors.DefaultSelector()
        self.viewers: Sequence[Viewer] = self._gather(theater, count)
        self._later: list[tuple[float, int]] = []  # when a viewer that is away comes back
        self.records: list[bytes] = []  # as the first viewer that had each got it
        self.latencies: list[float] = []  # of records appended while their viewer was there
        self.caught_up: list[float] = []  # of the others
        self.since: float | None = None  # records appended from then on are measured
        self.drops = 0

    def _gather(self, theater: str, count: int) -> Sequence[Viewer]:
        return [Viewer(self._server.port, theater, self._selector, self._keep) for _ in range(count)]

    def _keep(self, index: int, record: bytes, now: float, joined_at: float) -> None:
        if index == len(self.records):
            self.records.append(record)
        assert record == self.records[index], f"record {index} differs between viewers"
        if self.since is not None:
            while index >= len(self._server.appended):  # its line is still in the pipe
                time.sleep(0.0005)
            appended = self._server.appended[index]
            if appended < self.since:
                return  # of what there was before it came
            (self.latencies if appended >= joined_at else self.caught_up).append(now - appended)

    def come(self, within: float) -> None:
        """Connect all viewers, evenly over `within` seconds."""
        now = time.monotonic()
        self._later = [(now + within * i / len(self.viewers), i) for i in range(len(self.viewers))]

    def drop(self, share: float) -> None:
        """Disconnect a share of them at once; each reconnects as the page does."""
        for i in random.sample(range(len(self.viewers)), int(share * len(self.viewers))):
            self.viewers[i].drop()
        self.drops += 1

    def turn(self, seconds: float) -> None:
        """Read pending data, and connect the viewers that are due."""
        now = time.monotonic()
        waiting = {i for _, i in self._later}
        for i, viewer in enumerate(self.viewers):
            if viewer.socket is None and i not in waiting:
                heapq.heappush(self._later, (now + random.uniform(0.15, 0.45), i))
        while self._later and self._later[0][0] <= now:
            viewer = self.viewers[heapq.heappop(self._later)[1]]
            try:
                viewer.connect()
            except OSError:
                viewer.drop()
        for key, _ in self._selector.select(seconds):
            if key.data.socket is not None:
                key.data.read()


def percentiles(values: list[float]) -> str:
    """Return p50, p95, p99 and the maximum, in milliseconds."""
    if not values:
        return "none"
    values = sorted(values)
    at = [values[min(len(values) - 1, int(len(values) * share))] * 1000 for share in (0.5, 0.95, 0.99, 1)]
    return "p50 {:.0f} ms, p95 {:.0f} ms, p99 {:.0f} ms, most {:.0f} ms".format(*at)


def rate(appended: list[float], since: float) -> float:
    """Return the records per second from `since` on."""
    found = [at for at in appended if at >= since]
    return (len(found) - 1) / (found[-1] - found[0]) if len(found) > 1 else 0.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viewers", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60, help="with viewers (default: %(default)s)")
    parser.add_argument("--alone", type=float, default=10, help="seconds without viewers first (default: %(default)s)")
    parser.add_argument("--speed", type=float, default=2, help="steps a second (default: %(default)s)")
    parser.add_argument("--drops", type=float, default=0.3, help="share dropped each time (default: %(default)s)")
    parser.add_argument("--drop-every", type=float, default=5, help="seconds (default: %(default)s)")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    server = Server()
    try:
        return measure(server, given)
    finally:
        server.stop()


def measure(server: Server, given: argparse.Namespace) -> int:
    """Print the figures; exit status 0 if every viewer has the log."""
    control = socketio.Client(serializer="msgpack")
    control.connect(server.url, transports=["websocket"])

    def ask(event: str, **fields: Any) -> dict[str, Any]:
        answer: dict[str, Any] = control.call(event, fields, timeout=60)
        assert answer["ok"], answer
        return answer

    theater = ask("create")["theater"]
    ask("leave", theater=theater)  # it only gives orders
    ask("submit", theater=theater, prompts=[{"text": PROMPT}] * 64, sampling=SAMPLING)
    ask("run", theater=theater, speed=given.speed)
    before = server.facts()
    time.sleep(given.alone)
    alone = rate(server.appended, time.monotonic() - given.alone)

    crowd = Crowd(server, theater, given.viewers)
    crowd.come(within=5)
    while not all(viewer.joined_at for viewer in crowd.viewers):
        crowd.turn(0.05)
    began, processor, threads = time.monotonic(), server.processor_seconds(), 0
    next_drop, crowd.since = began + given.drop_every, began
    while (now := time.monotonic()) < began + given.seconds:
        if given.drops and now >= next_drop:
            threads = max(threads, server.facts()["threads"])
            crowd.drop(given.drops)
            next_drop += given.drop_every
        crowd.turn(0.02)
    crowd.since = None
    watched, used = rate(server.appended, began), (server.processor_seconds() - processor) / (now - began)
    after = server.facts()
    count = ask("pause", theater=theater)["status"]["num_records"]
    end = time.monotonic() + SETTLE
    while any(viewer.num_records < count for viewer in crowd.viewers) and time.monotonic() < end:
        crowd.turn(0.05)
    answer = requests.get(f"{server.url}/api/theaters/{theater}/trace", timeout=60)
    control.disconnect()
    with tempfile.NamedTemporaryFile(suffix=".kvtrace") as file:
        file.write(answer.content)
        file.flush()
        with TraceReader(file.name) as reader:
            log = [reader.record_bytes(i) for i in range(len(reader))]
    identical = sum(viewer.num_records == count for viewer in crowd.viewers) if crowd.records == log else 0
    everything = crowd.latencies + crowd.caught_up
    print(f"viewers       {given.viewers}, identical to the log: {identical}")
    print(f"drops         {crowd.drops} times {given.drops:.0%} of them at once")
    print(f"records       {count}, {sum(map(len, log)) / count:,.0f} bytes each without arrays")
    print(f"receipt       {percentiles(crowd.latencies)}; {len(crowd.latencies)} of viewers that were there")
    print(f"              {percentiles(everything)}; {len(everything)} with those caught up on after a drop")
    print(f"steps/s       {alone:.2f} alone, {watched:.2f} watched, of {given.speed:g} asked")
    print(f"threads       {before['threads']} alone, {max(threads, after['threads'])} watched")
    print(f"memory        {before['rss']} MiB alone, {after['rss']} MiB watched")
    print(f"processor     {used:.2f} cores of the server")
    print(f"stopped       after {server.stop():.1f} s")
    return 0 if identical == given.viewers else 1


if __name__ == "__main__":
    sys.exit(main())
