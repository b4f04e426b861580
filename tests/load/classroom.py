"""Load test of a class with five hundred followers: latency of records, slowdown of the run, lost answers.

    python -m tests.load.classroom --followers 500 --rounds 3 [--keep]
    python -m tests.load.classroom --followers 1000 --workers 2 [--keep]
    python -m tests.load.classroom --followers 200 --polling [--keep]

A server in a separate process steps the bundled model with captures. Followers are sockets of this process, each with
its own pass. A round has three parts: without followers, with all followers, and with all followers of which some are
repeatedly disconnected. With followers, the presenter casts a view at each step and asks questions, which each follower
answers with its own number. The test fails if a follower does not end with exactly the log's records, or if an answer
is missing, duplicated or another follower's.

With web workers, the followers are distributed evenly over the workers, which connect to the server through Redis.

Server, workers and followers share the processors of this machine; the record contains the processor time of each.
"""

from __future__ import annotations

import argparse
import csv
import http.client
import io
import json
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import requests
import socketio

from engine.trace.log import TraceReader
from tests.conftest import ROOT
from tests.load.client import JOINED, Viewer
from tests.load.polled import Polled
from tests.load.viewers import PROMPT, SAMPLING, SETTLE, Crowd, Figures, Process, Server
from tests.server.redis_server import RedisServer

TOKEN = "load"
OWNER = {"Authorization": f"Bearer {TOKEN}"}
RESULTS = ROOT / "engine" / "bench" / "results"
ENTERED, ANSWERED = 2, 3  # numbers of a follower's acknowledgements
THINK = 3.0  # maximum seconds until a follower answers
ASK_EVERY = 8.0  # seconds between questions


class Follower(Viewer):
    """Client that enters with its pass, follows the view, and answers each question with its own number."""

    def __init__(self, port: int, cookie: str, mine: int, later: list[tuple[float, Follower]], **rest: Any) -> None:
        super().__init__(port, "", **rest)
        self.headers = f"Cookie: {cookie}\r\n"
        self.mine = mine
        self.views = 0  # received casts
        self.latencies: list[float] = []  # of records appended while connected
        self._later = later
        self._poll: tuple[int, int] | None = None  # number and round of the open poll
        self._repeat: Callable[[], None] | None = None  # request to repeat because the server was busy
        self._given: set[int] = set()  # questions whose answers the server acknowledged

    def came(self) -> None:
        self.ask(ENTERED, "class_enter", {"language": "en"})

    def answered(self, number: int, ack: dict[str, Any], now: float) -> None:
        if number in (ENTERED, JOINED) and not ack["ok"]:  # all connect from one address
            assert ack["error"]["code"] == "busy", ack
            self._repeat = self.came if number == ENTERED else self.join
            self._later.append((now + random.uniform(1.0, 2.0), self))
        elif number == ENTERED:
            self._given = {one["poll"] for one in ack["mine"]["answers"]}
            self._theater = ack["state"]["theater"]
            self.join()
            self.received("class", ack["state"])
        elif number == ANSWERED:
            if ack["ok"]:
                self._given = {one["poll"] for one in ack["answers"]}
            elif ack["error"]["code"] == "busy":  # retry, as the page does
                self._later.append((now + random.uniform(1.0, 2.0), self))
        else:
            super().answered(number, ack, now)

    def received(self, event: str, data: dict[str, Any]) -> None:
        if event != "class":
            return
        self.views += 1
        poll = data["poll"]
        question = (poll["id"], poll["round"]) if poll and poll["phase"] == "open" else None
        if question != self._poll and question is not None and question[0] not in self._given:
            self._later.append((time.monotonic() + random.uniform(0.1, THINK), self))
        self._poll = question

    def drop(self) -> None:
        super().drop()
        self._poll = self._repeat = None

    def answer(self) -> None:
        """Repeat a failed request, or answer the open question unless it has been answered."""
        if again := self._repeat:
            self._repeat = None
            again()
            return
        if self._poll is not None and self._poll[0] not in self._given and self.socket is not None:
            poll, in_round = self._poll
            self.ask(ANSWERED, "class_answer", {"poll": poll, "round": in_round, "given": self.mine})


class PolledFollower(Polled, Follower):
    """Follower that polls, as in a network without WebSockets."""


class ClassCrowd(Crowd):
    """Followers of a class."""

    def __init__(self, server: Server, ports: list[int], cookies: list[str], is_polling: bool = False) -> None:
        """Set up the followers. `ports`: server port for each follower."""
        self._ports, self._cookies = ports, cookies
        self._kind = PolledFollower if is_polling else Follower
        self._thinking: list[tuple[float, Follower]] = []
        super().__init__(server, "", len(cookies))
        self.parts: dict[str, list[float]] = {"steady": [], "drops": []}
        self.part: str | None = None

    def _gather(self, theater: str, count: int) -> Sequence[Viewer]:
        found: list[Follower] = []
        for i, cookie in enumerate(self._cookies):
            port = self._ports[i % len(self._ports)]
            follower = self._kind(port, cookie, i, self._thinking, selector=self._selector, keep=partial(self._got, i))
            found.append(follower)
        self.followers = found
        return found

    def _got(self, follower: int, index: int, record: bytes, now: float, joined_at: float) -> None:
        before = len(self.latencies)
        self._keep(index, record, now, joined_at)
        if len(self.latencies) > before and self.part is not None:
            self.parts[self.part].append(self.latencies[-1])
            self.followers[follower].latencies.append(self.latencies[-1])

    def turn(self, seconds: float) -> None:
        super().turn(seconds)
        now = time.monotonic()
        due = [one for at, one in self._thinking if at <= now]
        self._thinking[:] = [(at, one) for at, one in self._thinking if at > now]
        for one in due:
            one.answer()

    def away(self) -> None:
        """Disconnect everyone until `come`."""
        for viewer in self.viewers:
            viewer.drop()
        self._thinking.clear()


class Workers:
    """Web workers, and the Redis that connects them to the server."""

    def __init__(self, redis: RedisServer | None, count: int) -> None:
        self._redis = redis
        self._workers: list[Process] = []
        self.ports: list[int] = []
        for _ in range(count):
            assert redis is not None
            command = [sys.executable, "-m", "app", "worker", "--message-queue", redis.url, "--port", "0"]
            worker = Process(command)
            self._workers.append(worker)
            self.ports.append(int(worker.first_line().rstrip("/\n").rpartition(":")[2]))

    def come(self, path: str) -> None:
        """Wait until all workers are linked to the server."""
        for port in self.ports:
            while requests.get(f"http://127.0.0.1:{port}{path}", allow_redirects=False, timeout=60).status_code != 303:
                time.sleep(0.1)

    def processor_seconds(self) -> float:
        """Return the CPU seconds of all processes together, including Redis."""
        return sum(one.processor_seconds() for one in self._all())

    def memory(self) -> list[int]:
        """Return the MiB of each worker, followed by that of Redis."""
        return [one.facts()["rss"] for one in self._all()]

    def stop(self) -> None:
        for one in self._workers:
            one.stop()
        if self._redis is not None:
            self._redis.stop()

    def _all(self) -> list[Figures]:
        return [*self._workers, *([Figures(self._redis.pid)] if self._redis else [])]


class Presenter:
    """Presenter of the class."""

    def __init__(self, server: Server, speed: float) -> None:
        self._server = server
        self._io = socketio.Client(serializer="msgpack")
        self._io.on("class_desk", self._desk)
        self._io.connect(server.url, transports=["websocket"], headers=OWNER)
        self.answered = 0
        opened = self.ask("class_open", base=server.url)
        self.secret, self.id = opened["secret"], opened["presenting"]["state"]["id"]
        self.join = opened["presenting"]["join"]
        self.theater = self.ask("create")["theater"]
        self.ask("leave", theater=self.theater)  # the presenter does not view the session
        self.ask("submit", theater=self.theater, prompts=[{"text": PROMPT}] * 64, sampling=SAMPLING)
        self._cast_at = -1
        self.casts = self.polls = 0
        self.cast()
        self.ask("run", theater=self.theater, speed=speed)

    def ask(self, event: str, **fields: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._io.call(event, fields, timeout=60)
        assert answer["ok"], answer
        return answer

    def cast(self) -> None:
        """Show the newest record, if it has changed."""
        newest = len(self._server.appended)
        if newest != self._cast_at:
            self._cast_at = newest
            view = {"step": str(newest), "layer": str(newest % 4), "head": str(newest % 8), "panel": "attention"}
            self._io.emit("class_cast", {"id": self.id, "theater": self.theater, "view": view})
            self.casts += 1

    def begin_poll(self) -> None:
        self.answered = 0
        self.ask("class_ask", id=self.id, kind="number", text=f"Question {self.polls}")
        self.polls += 1

    def end_poll(self) -> None:
        self.ask("class_poll", id=self.id, poll=self.polls - 1, to="shown")

    def results(self) -> list[dict[str, str]]:
        """Return every answer, from the teacher's table."""
        address = f"{self._server.url}/api/class/{self.id}/answers.csv"
        answer = requests.get(address, headers={**OWNER, "X-KVTheater-Class": self.secret}, timeout=60)
        assert answer.status_code == 200, answer.text
        return list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))

    def end(self) -> None:
        self._io.disconnect()

    def _desk(self, desk: dict[str, Any]) -> None:
        self.answered = desk["answered"]


class Lesson:
    """Measurement in parts, with its samples."""

    def __init__(
        self, server: Server, workers: Workers, presenter: Presenter, crowd: ClassCrowd, given: argparse.Namespace
    ) -> None:
        self._server, self._workers = server, workers
        self._presenter, self._crowd, self._given = presenter, crowd, given
        self._began = time.monotonic()
        self.windows: dict[str, list[tuple[float, float]]] = {"alone": [], "steady": [], "drops": []}
        self.memory: list[tuple[int, int]] = []  # seconds, MiB of the server
        self.workers_memory: list[list[int]] = []  # MiB of each web worker, at the same times
        self.threads = 0
        self.processor: dict[str, list[float]] = {"alone": [], "steady": [], "drops": []}  # cores of the server
        self.workers_processor: dict[str, list[float]] = {"alone": [], "steady": [], "drops": []}  # with Redis
        self.own: dict[str, list[float]] = {"alone": [], "steady": [], "drops": []}  # cores of the followers
        self.all_answered: list[float] = []  # seconds from a question until all answered

    def round(self) -> None:
        """Run the three parts of a round: without followers, with all, with all and disconnections."""
        self._crowd.away()
        time.sleep(1)
        self._part("alone", self._given.alone, lambda end: time.sleep(max(0.0, end - time.monotonic())))
        self._crowd.come(within=5)
        while not all(viewer.joined_at for viewer in self._crowd.viewers):
            self._crowd.turn(0.05)
            self._presenter.cast()
        self._part("steady", self._given.seconds, partial(self._attend, drops=False))
        self._part("drops", self._given.seconds, partial(self._attend, drops=True))

    def _part(self, name: str, seconds: float, do: Any) -> None:
        began, server, own = time.monotonic(), self._server.processor_seconds(), time.process_time()
        workers = self._workers.processor_seconds()
        self._crowd.part = None if name == "alone" else name
        self._crowd.since = None if name == "alone" else began
        do(began + seconds)
        self._crowd.part = self._crowd.since = None
        now = time.monotonic()
        self.windows[name].append((began, now))
        self.processor[name].append((self._server.processor_seconds() - server) / (now - began))
        self.workers_processor[name].append((self._workers.processor_seconds() - workers) / (now - began))
        self.own[name].append((time.process_time() - own) / (now - began))

    def _attend(self, end: float, drops: bool) -> None:
        """Process events until the end of the part, and wait for answers to an open question."""
        next_poll = time.monotonic() + 1.0
        next_drop = time.monotonic() + self._given.drop_every
        opened_at: float | None = None
        while (now := time.monotonic()) < end or opened_at is not None:
            if opened_at is None and now >= next_poll and end - now > THINK:
                self._presenter.begin_poll()
                opened_at = now
            elif opened_at is not None and self._presenter.answered == len(self._crowd.viewers):
                self.all_answered.append(now - opened_at)
                self._presenter.end_poll()
                opened_at, next_poll = None, now + ASK_EVERY
            assert opened_at is None or now - opened_at < SETTLE, f"{self._presenter.answered} have answered"
            if drops and now >= next_drop:
                self._crowd.drop(self._given.drops)
                next_drop += self._given.drop_every
            self._presenter.cast()
            self._crowd.turn(0.02)
            if not self.memory or now - self._began > self.memory[-1][0] + 5:
                facts = self._server.facts()
                self.memory.append((int(now - self._began), facts["rss"]))
                if len(self.memory) % 12 == 1:
                    print(f"{self.memory[-1][0]} s: {facts['rss']} MiB", file=sys.stderr, flush=True)
                self.workers_memory.append(self._workers.memory())
                self.threads = max(self.threads, facts["threads"])

    def finish(self) -> tuple[int, list[bytes]]:
        """Pause the run and wait until all followers are up to date; return their records and the log."""
        count = self._presenter.ask("pause", theater=self._presenter.theater)["status"]["num_records"]
        end = time.monotonic() + SETTLE
        while any(viewer.num_records < count for viewer in self._crowd.viewers) and time.monotonic() < end:
            self._crowd.turn(0.05)
        address = f"{self._server.url}/api/theaters/{self._presenter.theater}/trace"
        answer = requests.get(address, headers=OWNER, timeout=120)
        with tempfile.NamedTemporaryFile(suffix=".kvtrace") as file:
            file.write(answer.content)
            file.flush()
            with TraceReader(file.name) as reader:
                self.steps = self._step_times(reader)
                return count, [reader.record_bytes(i) for i in range(len(reader))]

    def _step_times(self, reader: TraceReader) -> dict[str, list[float]]:
        """Return the milliseconds of each step by the part in which it ended."""
        found: dict[str, list[float]] = {name: [] for name in self.windows}
        for i in range(len(reader)):
            record = reader.record(i)
            at = self._server.appended[i]
            for name, windows in self.windows.items():
                if record.kind == "step" and any(began <= at <= end for began, end in windows):
                    timing = record.timing
                    seconds = timing.schedule + timing.prepare + timing.forward + timing.sample
                    found[name].append(1000 * seconds)
        return found

    def rates(self) -> dict[str, float]:
        """Return the steps per second in each part."""
        return {
            name: round(
                sum(sum(a <= at <= b for at in self._server.appended) for a, b in windows)
                / sum(b - a for a, b in windows),
                3,
            )
            for name, windows in self.windows.items()
        }


def figures(values: list[float], scale: float = 1000.0) -> dict[str, float]:
    """Return median, 95th and 99th percentile and maximum, in milliseconds."""
    ordered = sorted(values)
    at = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "most": 1.0}
    return {
        name: round(scale * ordered[min(len(ordered) - 1, int(len(ordered) * share))], 1) for name, share in at.items()
    }


def cookies(server: Server, path: str, count: int) -> list[str]:
    """Return `count` passes from the entry page."""
    door = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    found: list[str] = []
    while len(found) < count:
        door.request("GET", path)
        answer = door.getresponse()
        answer.read()
        if answer.status == 303:
            found.append(str(answer.headers["Set-Cookie"]).partition(";")[0])
        else:
            time.sleep(1)  # the server admits ten per second from one address
    return found


def wrong_answers(rows: list[dict[str, str]], followers: int, polls: int) -> list[str]:
    """Return the deviations: each question must have each follower's number exactly once."""
    found: list[str] = []
    for poll in range(1, polls + 1):
        given = sorted(int(row["Answer"]) for row in rows if row["Question"] == str(poll) and row["Answer"])
        if given != list(range(followers)):
            found.append(f"question {poll}: {len(given)} answers, {len(set(given))} different ones")
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--followers", type=int, default=500)
    parser.add_argument("--workers", type=int, default=0, help="web workers that hold them (default: the server does)")
    parser.add_argument("--polling", action="store_true", help="followers have no web sockets")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", type=float, default=20, help="seconds of the first part (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=40, help="of each of the others (default: %(default)s)")
    parser.add_argument("--speed", type=float, default=2, help="steps a second (default: %(default)s)")
    parser.add_argument("--drops", type=float, default=0.3, help="share dropped each time (default: %(default)s)")
    parser.add_argument("--drop-every", type=float, default=4, help="seconds (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}/class_of_….json")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # one socket per follower
    with tempfile.TemporaryDirectory() as folder:
        redis = RedisServer(Path(folder)) if given.workers else None
        server = Server(TOKEN, *([redis.url] if redis else []))
        workers = Workers(redis, given.workers)
        try:
            return measure(server, workers, given)
        finally:
            server.stop()
            workers.stop()


def measure(server: Server, workers: Workers, given: argparse.Namespace) -> int:
    """Print the figures; return exit status 0 if every follower has the log and every answer is recorded once."""
    presenter = Presenter(server, given.speed)
    workers.come(presenter.join)
    crowd = ClassCrowd(
        server, workers.ports or [server.port], cookies(server, presenter.join, given.followers), given.polling
    )
    lesson = Lesson(server, workers, presenter, crowd, given)
    before = server.facts()
    for _ in range(given.rounds):
        lesson.round()
    count, log = lesson.finish()
    identical = sum(viewer.num_records == count for viewer in crowd.viewers) if crowd.records == log else 0
    wrong = wrong_answers(presenter.results(), given.followers, presenter.polls)
    machine = requests.get(f"{server.url}/api/model", headers=OWNER, timeout=60).json()["machine"]
    presenter.end()
    report: dict[str, Any] = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "what": "a class: a view cast at each step, questions that all answer; server and followers on one machine; "
        "milliseconds from a record's append to its receipt",
        "asked_steps_a_second": given.speed,
        "followers": given.followers,
        "web_workers": given.workers,
        "transport": "polling" if given.polling else "websocket",
        "rounds": given.rounds,
        "seconds_a_part": {"alone": given.alone, "steady": given.seconds, "drops": given.seconds},
        "drops": {"share": given.drops, "every_seconds": given.drop_every, "times": crowd.drops},
        "records": count,
        "followers_identical_to_the_log": identical,
        "receipt_ms": {name: figures(values) for name, values in crowd.parts.items() if values},
        "slowest_follower_p95_ms": max(
            (figures(one.latencies)["p95"] for one in crowd.followers if one.latencies), default=None
        ),
        "views_cast": presenter.casts,
        "views_told_to_each": {
            "fewest": min(one.views for one in crowd.followers),
            "most": max(one.views for one in crowd.followers),
        },
        "questions": presenter.polls,
        "answers_wrong": wrong,
        "seconds_until_all_have_answered": figures(lesson.all_answered, 1.0) if lesson.all_answered else None,
        "steps_a_second": lesson.rates(),
        "step_ms": {name: round(statistics.median(values), 2) for name, values in lesson.steps.items() if values},
        "server_cores": {name: round(statistics.mean(values), 2) for name, values in lesson.processor.items()},
        "web_workers_and_redis_cores": {
            name: round(statistics.mean(values), 2) for name, values in lesson.workers_processor.items()
        },
        "followers_cores": {name: round(statistics.mean(values), 2) for name, values in lesson.own.items()},
        "memory_mib": {"before": before["rss"], "over_time": lesson.memory},
        "web_workers_memory_mib": lesson.workers_memory,
        "threads": lesson.threads,
        "machine": machine,
    }
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    print(text)
    if given.keep:
        (RESULTS / f"class_of_{given.followers}{'_polling' if given.polling else ''}.json").write_text(
            text, encoding="utf-8"
        )
    return 0 if identical == given.followers and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
