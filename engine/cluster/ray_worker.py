"""Instances in Ray actors, on one machine or on several. Needs the extra `ray`.

    with RayWorkers(ModelSource("model"), address=None) as workers:
        cluster = process_cluster(model, config, workers)

The messages are those of an instance process (`messages.py`). Each is sent as a call of one method, whose result is the
list of replies; an actor handles one call at a time. Blocks move through Ray's object store (`connector/ray_link.py`).
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import ray

from engine.cache.kv_plane import zeros
from engine.cluster.inbox import Notifier
from engine.cluster.messages import Begin, End, Ended, ModelSource, Submit, ToCluster, ToInstance
from engine.cluster.ray_tasks import environment
from engine.cluster.worker import ModelCache, Worker, build_worker
from engine.cluster.worker_process import END_SECONDS, Workers
from engine.connector.link import Link
from engine.connector.peer import PeerGoneError, wait_for_any
from engine.connector.ray_link import GROUP, RayLink, Shipment, ship
from engine.connector.transfer import TransferConnector
from engine.connector.wakeup import Wakeup
from engine.engine import Engine
from engine.system.host import processors

_to_instance = msgspec.msgpack.Decoder[ToInstance](ToInstance)
_to_cluster = msgspec.msgpack.Decoder[ToCluster](ToCluster)


class Clock(NamedTuple):
    """Reading of `time.perf_counter` with the boot id of its machine."""

    boot: str
    now: float  # seconds


def clock_here() -> Clock:
    return Clock(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"), time.perf_counter())


class RayExchange:
    """See `engine.cluster.exchange.Exchange`."""

    new_pool = staticmethod(zeros)

    def __init__(self, actors: dict[str, Any]) -> None:
        self.link: Link = RayLink(actors)

    def open(self, engine: Engine, connector: TransferConnector) -> None:
        """No-op: the actor's methods are reachable already."""

    def close(self) -> None:
        pass


class InstanceActor:
    """Ray actor of an instance. `handle` runs on one thread; the other methods run on threads of a second group."""

    def __init__(self) -> None:
        self._notifier, self._model = Notifier(), ModelCache()
        self._actors = dict[str, Any]()  # actors of the other instances, by engine id
        self._worker: Worker | None = None
        self._replies = list[ToCluster]()

    def handle(self, data: bytes, actors: dict[str, Any], clock: Clock) -> list[bytes]:
        """Process a message and return the replies. `clock`: clock of the caller."""
        message = _to_instance.decode(data)
        self._actors.update(actors)
        if isinstance(message, Begin):
            self._begin(message, clock)
        elif isinstance(message, End):
            if self._worker is not None:
                self._worker.close()
            self._worker = None
            self._actors.clear()
            self._replies.append(Ended())
        elif self._worker is not None:
            self._worker.answer(message)
        replies = [msgspec.msgpack.encode(one) for one in self._replies]
        self._replies.clear()
        return replies

    def _begin(self, begin: Begin, clock: Clock) -> None:
        here = clock_here()
        # clocks of different machines differ; the transmission time is ignored
        if begin.place.began is not None and here.boot != clock.boot:
            began = begin.place.began + here.now - clock.now
            begin = msgspec.structs.replace(begin, place=begin.place._replace(began=began))
        begin = msgspec.structs.replace(begin, processors=processors())
        self._worker = build_worker(begin, self._model, self._notifier, RayExchange(self._actors), self._replies.append)

    def wake(self) -> None:
        """Wake the instance from an idle wait, because a message is queued."""
        self._notifier.wake()

    def ship(self, transfer: str, wanted: list[tuple[int, int]]) -> Shipment:
        """See `ray_link.ship`."""
        return ship(self._worker.connector if self._worker else None, transfer, wanted)

    def received(self, transfer: str, wanted: list[tuple[int, int]], num_bytes: int) -> None:
        if self._worker is not None:
            self._worker.connector.received(transfer, wanted, num_bytes)

    def pid(self) -> int:
        return os.getpid()

    def block_forever(self) -> None:
        """Block forever. The caller's future fails when the actor ends."""
        threading.Event().wait()


class RayPeer:
    """Implementation of `worker_process.Connection`. Not thread-safe."""

    def __init__(self, actor: Any, actors: dict[str, dict[str, Any]]) -> None:
        """`actors`: per cluster folder, actors by engine id; shared by all peers."""
        self._actor, self._actors = actor, actors
        self._folder, self._name = "", ""
        self._calls, self._messages = deque[Future[list[bytes]]](), deque[ToCluster]()
        self._wakeup = Wakeup()
        self.ended: Future[None] = actor.block_forever.options(concurrency_group=GROUP).remote().future()
        self.ended.add_done_callback(self._ring)

    def fileno(self) -> int:
        return self._wakeup.fileno()

    def send(self, message: ToInstance, timeout: float | None = None) -> None:
        if self.ended.done():
            raise PeerGoneError("the actor has ended")
        if isinstance(message, Begin):
            self._folder, self._name = message.folder, message.name
            self._actors.setdefault(self._folder, {})[self._name] = self._actor
        elif isinstance(message, End):
            self._unregister()
        others = dict(self._actors.get(self._folder, {})) if isinstance(message, Submit) else {}
        call = self._actor.handle.remote(msgspec.msgpack.encode(message), others, clock_here()).future()
        if self._calls:  # the actor may be in an idle wait
            self._actor.wake.options(concurrency_group=GROUP).remote()
        self._calls.append(call)
        call.add_done_callback(self._ring)

    def receive(self, timeout: float | None = None) -> ToCluster:
        until = None if timeout is None else time.monotonic() + timeout
        while not self._messages:
            self._messages.extend(self._receive())
            if self._messages:
                break
            left = None if until is None else until - time.monotonic()
            if not wait_for_any([self.fileno()], left):
                raise TimeoutError("no message from the actor in time")
        return self._messages.popleft()

    def receive_all(self) -> list[ToCluster]:
        messages = [*self._messages, *self._receive(bool(self._messages))]
        self._messages.clear()
        return messages

    def close(self) -> None:
        self._unregister()

    def release(self) -> None:
        self.close()
        self.ended.cancel()
        self._wakeup.close()

    def _receive(self, has_messages: bool = False) -> list[ToCluster]:
        """Return the replies of finished calls, in call order."""
        self._wakeup.drain()
        received = list[ToCluster]()
        while self._calls and self._calls[0].done():
            try:
                replies = self._calls[0].result()
            except ray.exceptions.RayError as error:
                if received or has_messages:
                    break
                raise PeerGoneError(str(error)) from error
            received += [_to_cluster.decode(one) for one in replies]
            self._calls.popleft()
        if not received and not has_messages and not self._calls and self.ended.done():
            raise PeerGoneError("the actor has ended")
        return received

    def _unregister(self) -> None:
        actors = self._actors.get(self._folder, {})
        if actors.get(self._name) is self._actor:
            del actors[self._name]
            if not actors:
                del self._actors[self._folder]

    def _ring(self, _: object) -> None:
        self._wakeup.ring()


class RayWorker:
    """Implementation of `worker_process.AnyWorker`."""

    def __init__(self, actors: dict[str, dict[str, Any]], num_cpus: float) -> None:
        options: dict[str, Any] = {
            "num_cpus": num_cpus,
            "concurrency_groups": {GROUP: 8},  # `block_forever` occupies one of them
            "runtime_env": environment(),
        }
        self._actor = ray.remote(**options)(InstanceActor).remote()
        self.peer = RayPeer(self._actor, actors)

    @property
    def pid(self) -> int:
        found: int = ray.get(self._actor.pid.options(concurrency_group=GROUP).remote())
        return found

    @property
    def is_alive(self) -> bool:
        return not self.peer.ended.done()

    def kill(self) -> None:
        ray.kill(self._actor)

    def wait(self, seconds: float = END_SECONDS) -> str:
        try:
            error = self.peer.ended.exception(seconds)
        except TimeoutError:
            self.kill()
            return "its actor was killed"
        cause = " ".join(str(error).split())[:200]
        return f"its actor has ended: {cause}"

    def close(self) -> None:
        self.kill()
        self.peer.release()


class RayWorkers(Workers):
    """Pool of Ray actors for instances of one model. Its folder or name must be valid on each machine."""

    def __init__(
        self, source: ModelSource, address: str | None = None, *, num_cpus: float = 1.0, most: int | None = None
    ) -> None:
        """Connect to Ray.

        `address`: address of a Ray cluster; None: a running local cluster, or a temporary one. `num_cpus`: CPUs that
        Ray reserves per actor; `most`: see `Workers`.
        """
        self._is_own = not ray.is_initialized()
        if self._is_own:
            ray.init(address=address, include_dashboard=False, log_to_driver=False)
        actors = dict[str, dict[str, Any]]()
        super().__init__(source, most, lambda: RayWorker(actors, num_cpus))

    def close(self) -> None:
        super().close()
        if self._is_own:
            self._is_own = False
            ray.shutdown()
