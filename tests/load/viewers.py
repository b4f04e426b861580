"""Viewers of a server in a separate process, some of which are repeatedly disconnected at random."""

import heapq
import random
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import psutil

from tests.load.client import Viewer

PROMPT = "春江潮水连海平，海上明月共潮生。"
SAMPLING = {"max_tokens": 200, "ignore_eos": True}
SETTLE = 30.0  # seconds in which the last records must arrive


class Figures:
    """Figures of a process, from the operating system."""

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
        """Terminate the process; return the seconds until it has ended."""
        began = time.monotonic()
        self._process.terminate()
        self._process.wait(60)
        return time.monotonic() - began


class Server(Process):
    """Server process, and the times of its records."""

    def __init__(self, *arguments: str) -> None:
        """Start the server. `arguments`: arguments of tests.load.served."""
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
    """Viewers, with their latencies and disconnections."""

    def __init__(self, server: Server, theater: str, count: int) -> None:
        self._server = server
        self._selector = selectors.DefaultSelector()
        self.viewers: Sequence[Viewer] = self._gather(theater, count)
        self._later: list[tuple[float, int]] = []  # time of reconnection, index of the viewer
        self.records: list[bytes] = []  # each as received by the first viewer that had it
        self.latencies: list[float] = []  # of records appended while their viewer was connected
        self.caught_up: list[float] = []  # of records that a viewer received after reconnecting
        self.since: float | None = None  # records appended from this time on are measured
        self.drops = 0

    def _gather(self, theater: str, count: int) -> Sequence[Viewer]:
        return [Viewer(self._server.port, theater, self._selector, self._keep) for _ in range(count)]

    def _keep(self, index: int, record: bytes, now: float, joined_at: float) -> None:
        if index == len(self.records):
            self.records.append(record)
        assert record == self.records[index], f"record {index} differs between viewers"
        if self.since is not None:
            while index >= len(self._server.appended):  # the server's line is still in the pipe
                time.sleep(0.0005)
            appended = self._server.appended[index]
            if appended < self.since:
                return  # appended before the viewer joined
            (self.latencies if appended >= joined_at else self.caught_up).append(now - appended)

    def come(self, within: float) -> None:
        """Connect all viewers, evenly over `within` seconds."""
        now = time.monotonic()
        self._later = [(now + within * i / len(self.viewers), i) for i in range(len(self.viewers))]

    def drop(self, share: float) -> None:
        """Disconnect a share of the viewers simultaneously; each reconnects as the page does."""
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
