"""Load test of monitoring vLLM: `python -m tests.load.attach_vllm --python ENV/bin/python`, where vLLM is installed.

A server of the bundled model with a small pool answers 10,000 requests with shared prefixes, so that blocks are evicted
continuously. The server restarts once. Four watchers monitor it: the first from the start, the second with a short
interruption of its connection, the third with an interruption longer than the server's replay buffer, and the last
starts late. An independent decoder (`Witness`: msgpack and sets) computes the cached set after every message. The log
of each watcher must agree with it and pass `trace check`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import zmq

from engine.observe.monitor.attachment import Attaching, Attachment
from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.operations import KnownSince, Removed, Stored
from tests.load.record import Measuring

MODEL = Path(__file__).resolve().parents[2] / "engine" / "model" / "bundled"
BLOCK_SIZE, NUM_BLOCKS = 32, 512
REMEMBERED = 120  # capacity of the server's replay buffer, in messages
PREFIXES, PREFIX_TOKENS = 40, 96
Key = tuple[str, str, int, bytes]  # medium, store, group, hash
Contents = Counter[Key]  # number of blocks per key


class Server:
    """Lifetime of a vLLM process."""

    def __init__(self, python: str, ports: list[int], log: Path) -> None:
        self.http, events, replay = ports
        settings = {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": f"tcp://*:{events}",
            "replay_endpoint": f"tcp://*:{replay}",
            "buffer_steps": REMEMBERED,
            "topic": "kv-events",
        }
        command = [
            python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(MODEL), "--served-model-name", "m",
            "--host", "127.0.0.1", "--port", str(self.http), "--enforce-eager", "--block-size", str(BLOCK_SIZE),
            "--num-gpu-blocks-override", str(NUM_BLOCKS), "--max-model-len", "512", "--max-num-seqs", "32",
            "--enable-prefix-caching", "--kv-events-config", json.dumps(settings), "--disable-uvicorn-access-log",
        ]  # fmt: skip
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        env |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            command, env=env, stdout=self._log, stderr=self._log, cwd=log.parent, start_new_session=True
        )

    def ready(self, seconds: float = 600) -> None:
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.http}/health"):
                return
            if self._process.poll() is not None or time.monotonic() > end:
                words = Path(self._log.name).read_text(encoding="utf-8", errors="replace")
                raise SystemExit(f"vLLM did not start:\n{words[-4000:]}")
            time.sleep(0.5)

    def version(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/version") as answer:
            return str(json.load(answer)["version"])

    def ask(self, number: int) -> None:
        """Send a request for two tokens with a shared prefix and a unique suffix."""
        prefix = random.Random(number * 7919 % PREFIXES)
        own = random.Random(number)
        prompt = [prefix.randrange(5, 8000) for _ in range(PREFIX_TOKENS)]
        prompt += [own.randrange(5, 8000) for _ in range(own.randrange(8, 160))]
        body = {"model": "m", "prompt": prompt, "max_tokens": 2, "ignore_eos": True}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http}/v1/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            answer.read()

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._log.close()


class Witness:
    """Messages of one server lifetime, and the cached contents after each, by an independent decoder."""

    def __init__(self, events: int) -> None:
        self.payloads: list[bytes] = []
        self._context = zmq.Context()
        self._sub: zmq.Socket[bytes] = self._context.socket(zmq.SUB)
        self._sub.setsockopt(zmq.RCVHWM, 0)
        self._sub.setsockopt(zmq.SUBSCRIBE, b"")
        self._sub.connect(f"tcp://127.0.0.1:{events}")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while not self._over.is_set():
            if self._sub.poll(50):
                _, number, payload = self._sub.recv_multipart()
                if int.from_bytes(number, "big") != len(self.payloads):
                    raise SystemExit(f"the witness missed a message before {int.from_bytes(number, 'big')}")
                self.payloads.append(payload)

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._context.destroy(linger=0)

    def fold(self, cached: Contents, number: int) -> None:
        """Apply message `number` to the cached contents."""
        _, events, *_ = msgspec.msgpack.decode(self.payloads[number])
        for event in events:
            match event["type"]:
                case "BlockStored":
                    begins = event["parent_block_hash"] is None  # a request that found them may say so: no copies
                    for key in [_key(event, one) for one in event["block_hashes"]]:
                        cached[key] += not (begins and cached[key])
                case "BlockRemoved":
                    for key in [_key(event, one) for one in event["block_hashes"]]:
                        cached[key] -= cached[key] > 0
                case "AllBlocksCleared":
                    cached.clear()


def _key(event: dict[str, Any], one: int | bytes) -> Key:
    as_bytes = one if isinstance(one, bytes) else one.to_bytes(8, "big", signed=one < 0)
    return event.get("medium") or "GPU", event.get("ownership") or "", event.get("group_idx") or 0, as_bytes


class Wire:
    """TCP connection between server and watcher that can be cut."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._cut = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def cut(self, is_cut: bool) -> None:
        (self._cut.set if is_cut else self._cut.clear)()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._listener.close()

    def _carry(self) -> None:
        while not self._over.is_set():
            if self._cut.is_set():
                for one in list(self._pairs):
                    self._drop(one)
            ready, _, _ = select.select([self._listener, *self._pairs], [], [], 0.05)
            for one in ready:
                if one is self._listener:
                    self._connect()
                elif one in self._pairs:
                    self._pass_on(one)
        for one in list(self._pairs):
            self._drop(one)

    def _connect(self) -> None:
        client, _ = self._listener.accept()
        try:
            if self._cut.is_set():
                raise OSError("it is cut")
            server = socket.create_connection(("127.0.0.1", self._to), 1)
        except OSError:
            client.close()
            return
        self._pairs |= {client: server, server: client}

    def _pass_on(self, one: socket.socket) -> None:
        try:
            data = one.recv(1 << 16)
            if not data:
                raise OSError("closed")
            self._pairs[one].sendall(data)
        except OSError:
            self._drop(one)

    def _drop(self, one: socket.socket) -> None:
        other = self._pairs.pop(one, None)
        for each in (one, other):
            if each is not None:
                self._pairs.pop(each, None)
                each.close()


class Watcher:
    """Attached monitor whose connections go through a `Wire`."""

    def __init__(self, name: str, ports: list[int], folder: Path) -> None:
        self.name, self.path = name, folder / f"{name}.kvtrace"
        self.wires = [Wire(port) for port in ports[1:]]
        events, replay = (f"tcp://127.0.0.1:{wire.port}" for wire in self.wires)
        metrics = f"http://127.0.0.1:{ports[0]}/metrics"
        self.attachment = Attachment(Attaching(events=events, replay=replay, metrics=metrics), self.path)
        self.attachment.start()

    def cut(self, is_cut: bool) -> None:
        for wire in self.wires:
            wire.cut(is_cut)

    def close(self) -> None:
        self.attachment.close()
        self.attachment.log.close()
        for wire in self.wires:
            wire.close()


def compare(path: Path, lives: list[Witness]) -> dict[str, Any]:
    """Compare a log with the witness after each message in the log. Returns a summary."""
    found: dict[str, Any] = {"compared": 0, "replayed": 0, "unmatched": 0, "breaks": []}
    cached: Contents = Counter()
    places: dict[tuple[bool, int], Key] = {}
    epoch = 0
    with TraceReader(path) as log:
        for index in range(len(log)):
            record = log.record(index)
            for op in record.ops:
                if isinstance(op, KnownSince):
                    places.clear()
                    cached.clear()
                    epoch = op.epoch
                    found["breaks"].append([op.reason, op.sequence, op.num_missed])
                elif isinstance(op, Stored):
                    places[op.outside, op.place] = (op.medium or "GPU", op.tier or "", op.group or 0, op.block_hash)
                elif isinstance(op, Removed) and not op.num_left:
                    del places[op.outside, op.place]
            if record.seen is None or record.seen.sequence is None:
                continue
            lives[epoch].fold(cached, record.seen.sequence)
            if set(places.values()) != set(+cached):
                raise SystemExit(f"{path}: after message {record.seen.sequence} of life {epoch} the sets differ")
            found["compared"] += 1
            found["replayed"] += record.seen.replayed
            found["unmatched"] += record.seen.num_unmatched
        found["records"], found["bytes"] = len(log), log.num_bytes
    found["cached at the end"] = len(+cached)
    findings = list(check(path))
    if findings:
        raise SystemExit(f"{path} is not sound: {findings[0].message}")
    return found


def serve(server: Server, numbers: range) -> None:
    with ThreadPoolExecutor(32) as clients:
        list(clients.map(server.ask, numbers))


@contextlib.contextmanager
def _closing(things: list[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        for thing in reversed(things):
            thing.close()


def main() -> int:
    """Run the whole test."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--python", required=True, help="of the environment in which vLLM is installed")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the figures there, as JSON")
    parser.add_argument(
        "--keep-wire", type=Path, metavar="FILE", help="write the first 40 messages there, as they came"
    )
    arguments = parser.parse_args()
    if subprocess.run([arguments.python, "-c", "import vllm"], capture_output=True).returncode:
        print(f"{arguments.python} has no vLLM: nothing is tested")
        return 0
    things: list[Any] = []
    with tempfile.TemporaryDirectory() as folder, _closing(things):
        run(arguments, Path(folder), things)
    return 0


def run(options: argparse.Namespace, folder: Path, things: list[Any]) -> None:
    measuring, ports = Measuring(), [_free_port() for _ in range(3)]
    part = options.requests // 8
    parts = [range(i * part, (i + 1) * part) for i in range(8)]
    server = Server(options.python, ports, folder / "vllm.log")
    things.append(server)
    lives = [Witness(ports[1])]
    things.append(lives[0])
    server.ready()
    version = server.version()
    watchers = [Watcher(name, ports, folder) for name in ("steady", "cut", "cut for long")]
    things += watchers
    _, cut, long = watchers
    serve(server, parts[0])
    cut.cut(True)
    before = len(lives[0].payloads)
    while len(lives[0].payloads) < before + REMEMBERED // 3:  # less than the server remembers
        serve(server, range(parts[1].start, parts[1].start + 8))
        parts[1] = range(parts[1].start + 8, parts[1].stop)
    cut.cut(False)
    serve(server, parts[1])
    long.cut(True)
    serve(server, parts[2])
    if len(lives[0].payloads) < before + 2 * REMEMBERED:
        print("the server said too little for a gap: more requests are needed")
    long.cut(False)
    serve(server, parts[3])
    late = Watcher("late", ports, folder)
    watchers.append(late)
    things.append(late)
    serve(server, parts[4])
    time.sleep(3)
    server.close()
    lives[0].close()
    server = Server(options.python, ports, folder / "vllm.log")
    things.append(server)
    lives.append(Witness(ports[1]))
    things.append(lives[1])
    server.ready()
    for numbers in parts[5:]:
        serve(server, numbers)
    _settled(watchers, lives[-1])
    figures: dict[str, Any] = {
        "requests": options.requests,
        "messages": [len(life.payloads) for life in lives],
        "events": [sum(len(msgspec.msgpack.decode(p)[1]) for p in life.payloads) for life in lives],
    }
    for watcher in watchers:
        watcher.attachment.close()
        figures[watcher.name] = compare(watcher.path, lives)
    measuring.record(figures, options.keep, vllm=version)
    if options.keep_wire:
        options.keep_wire.write_bytes(msgspec.msgpack.encode(lives[0].payloads[:40]))


def _settled(watchers: list[Watcher], life: Witness) -> None:
    """Wait until every watcher has the witness's last message."""
    end = time.monotonic() + 30
    for watcher in watchers:
        log = watcher.attachment.log
        while True:
            seen = (log.record(index).seen for index in range(len(log) - 1, max(-1, len(log) - 20), -1))
            last = next((one.sequence for one in seen if one is not None and one.sequence is not None), -1)
            if last == len(life.payloads) - 1:
                break
            if time.monotonic() > end:
                raise SystemExit(f"{watcher.name} has message {last} of {len(life.payloads) - 1}")
            time.sleep(0.1)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
