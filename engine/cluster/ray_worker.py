"""Instances as Ray actors: on this machine, or on those of a Ray cluster. Needs the extra `ray`.

    with RayWorkers(Source("model"), address=None) as workers:
        cluster = process_cluster(model, config, workers)

Messages are those of an instance process (`messages.py`), sent as calls of one method. An actor handles one call after
the other and returns its messages as the result. Blocks move through Ray's object store (`connector/ray_link.py`).
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
from engine.cluster.inbox import Bell
from engine.cluster.messages import Begin, End, Ended, ModelSource, Submit, ToCluster, ToInstance
from engine.cluster.ray_tasks import environment
from engine.cluster.worker import Model, Worker, begun
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
    """`time.perf_counter` at one moment."""

    boot: str  # of the machine that it counts from
    now: float  # seconds


def clock_here() -> Clock:
    return Clock(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"), time.perf_counter())


class RayExchange:
    """See `engine.cluster.exchange.Exchange`."""

    new_pool = staticmethod(zeros)

    def __init__(self, actors: dict[str, Any]) -> None:
        self.link: Link = RayLink(actors)

    def open(self, engine: Engine, connector: TransferConnector) -> None:
        """The actor's methods are there already."""

    def close(self) -> None:
        pass


class Body:
    """The actor. `say` is called by the cluster and runs on one thread; the others on threads of their own."""

    def __init__(self) -> None:
        self._bell, self._model = Bell(), Model()
        self._actors = dict[str, Any]()  # those that hold blocks, by engine id
        self._worker: Worker | None = None
        self._replies = list[ToCluster]()

    def say(self, data: bytes, actors: dict[str, Any], clock: Clock) -> list[bytes]:
        """Process the message and return the replies. `clock`: the caller's."""
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
        # on another machine: convert the clock, ignoring the transmission time
        if begin.place.began is not None and here.boot != clock.boot:
            began = begin.place.began + here.now - clock.now
            begin = msgspec.structs.replace(begin, place=begin.place._replace(began=began))
        begin = msgspec.structs.replace(begin, processors=processors())
        self._worker = begun(begin, self._model, self._bell, RayExchange(self._actors), self._replies.append)

    def wake(self) -> None:
        """Wake the instance: a message is waiting."""
        self._bell.wake()

    def ship(self, transfer: str, wanted: list[tuple[int, int]]) -> Shipment:
        """See `ray_link.ship`."""
        return ship(self._worker.connector if self._worker else None, transfer, wanted)

    def received(self, transfer: str, wanted: list[tuple[int, int]], num_bytes: int) -> None:
        if self._worker is not None:
            self._worker.connector.received(transfer, wanted, num_bytes)

    def pid(self) -> int:
        return os.getpid()

    def stay(self) -> None:
        """Block forever: a waiting caller notices the actor's end."""
        threading.Event().wait()


class RayPeer:
    """See `worker_process.Line`. One thread uses it."""

    def __init__(self, actor: Any, actors: dict[str, dict[str, Any]]) -> None:
        """`actors`: of each meeting place, by engine id; shared by all that may meet."""
        self._actor, self._actors = actor, actors
        self._meeting, self._name = "", ""
        self._calls, self._messages = deque[Future[list[bytes]]](), deque[ToCluster]()
        self._bell = Wakeup()
        self.ended: Future[None] = actor.stay.options(concurrency_group=GROUP).remote().future()
        self.ended.add_done_callback(self._ring)

    def fileno(self) -> int:
        return self._bell.fileno()

    def send(self, message: ToInstance, timeout: float | None = None) -> None:
        if self.ended.done():
            raise PeerGoneError("the actor has ended")
        if isinstance(message, Begin):
            self._meeting, self._name = message.folder, message.name
            self._actors.setdefault(self._meeting, {})[self._name] = self._actor
        elif isinstance(message, End):
            self._leave()
        others = dict(self._actors.get(self._meeting, {})) if isinstance(message, Submit) else {}
        call = self._actor.say.remote(msgspec.msgpack.encode(message), others, clock_here()).future()
        if self._calls:  # it may be napping
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
                raise TimeoutError("nothing happened in time")
        return self._messages.popleft()

    def receive_all(self) -> list[ToCluster]:
        messages = [*self._messages, *self._receive(bool(self._messages))]
        self._messages.clear()
        return messages

    def close(self) -> None:
        self._leave()

    def release(self) -> None:
        self.close()
        self.ended.cancel()
        self._bell.close()

    def _receive(self, is_some: bool = False) -> list[ToCluster]:
        """Return the messages of finished calls, in call order."""
        self._bell.drain()
        received = list[ToCluster]()
        while self._calls and self._calls[0].done():
            try:
                replies = self._calls[0].result()
            except ray.exceptions.RayError as error:
                if received or is_some:
                    break
                raise PeerGoneError(str(error)) from error
            received += [_to_cluster.decode(one) for one in replies]
            self._calls.popleft()
        if not received and not is_some and not self._calls and self.ended.done():
            raise PeerGoneError("the actor has ended")
        return received

    def _leave(self) -> None:
        meeting = self._actors.get(self._meeting, {})
        if meeting.get(self._name) is self._actor:
            del meeting[self._name]
            if not meeting:
                del self._actors[self._meeting]

    def _ring(self, _: object) -> None:
        self._bell.ring()


class RayWorker:
    """See `worker_process.AnyWorker`."""

    def __init__(self, actors: dict[str, dict[str, Any]], num_cpus: float) -> None:
        options: dict[str, Any] = {
            "num_cpus": num_cpus,
            "concurrency_groups": {GROUP: 8},  # one of them stays
            "runtime_env": environment(),
        }
        self._actor = ray.remote(**options)(Body).remote()
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
            return "its actor was ended"
        cause = " ".join(str(error).split())[:200]
        return f"its actor has ended: {cause}"

    def close(self) -> None:
        self.kill()
        self.peer.release()


class RayWorkers(Workers):
    """Actors for instances of one model, whose folder or name must mean the same on each machine."""

    def __init__(
        self, source: ModelSource, address: str | None = None, *, num_cpus: float = 1.0, most: int | None = None
    ) -> None:
        """`address`: of a Ray cluster; None: an existing one, or a temporary one on this machine.
        `num_cpus`: that Ray sets aside for each; `most`: see `Workers`.
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
