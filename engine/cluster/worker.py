"""Process of one instance: an engine with its pool in shared memory, controlled by a cluster over a socket.

    python -m engine.cluster.worker FD

FD: file descriptor of an inherited Unix socket (`messages.py`). The process ends when the cluster is gone.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from engine.cluster.exchange import Exchange, SharedMemoryExchange
from engine.cluster.inbox import Inbox, Notifier
from engine.cluster.messages import (
    Abort,
    Answer,
    Begin,
    Check,
    End,
    Ended,
    ErrorKind,
    Failed,
    ModelSource,
    Observe,
    Ready,
    Submit,
    ToCluster,
    ToInstance,
    Turn,
    TurnOver,
    Wrote,
)
from engine.config import ConfigError
from engine.connector.layout import layout_of
from engine.connector.link import ThrottledLink
from engine.connector.peer import Peer, PeerGoneError
from engine.connector.shared_memory import socket_of
from engine.connector.transfer import TransferConnector
from engine.engine import Engine
from engine.model.compiled import compile_in_background
from engine.model.errors import ModelError
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.options.refusal import sentence
from engine.requests.request_spec import RequestError
from engine.setup.resolve import resolve_for
from engine.system.freeze_gc import freeze_gc
from engine.system.host import run_on
from engine.trace.codec import encode
from engine.trace.operations import Hold
from engine.trace.records import Capture, StepRecord

IDLE_WAIT = 0.05  # seconds that a turn without work waits for a transfer; bounded, because leases expire
PULLS = 4  # concurrent pulls

Send = Callable[[ToCluster], None]


class Worker:
    """Engine of an instance, and its replies to messages.

    `send` must return only after the message is sent: a record must be sent before another instance can write a record
    that depends on it.
    """

    def __init__(self, begin: Begin, model: LoadedModel, notifier: Notifier, exchange: Exchange, send: Send) -> None:
        """Build the engine. Raises ModelError, ConfigError: the instance cannot be built."""
        self._notifier, self._exchange, self._send = notifier, exchange, send
        self._wrote: Wrote | None = None  # record of this turn's step
        resolved = resolve_for(begin.config, model.facts)
        link = exchange.link
        if begin.bytes_per_second is not None:
            link = ThrottledLink(link, begin.bytes_per_second)
        self.connector = TransferConnector(
            begin.name,
            link,
            lambda caches: layout_of(model, resolved.config, resolved.groups, [c.bytes_per_block for c in caches]),
            pulls=ThreadPoolExecutor(PULLS, "pull"),
            lease=begin.lease,
            policy=begin.policy,
            notify=notifier.wake,
        )
        self.engine = Engine(
            model,
            begin.config,
            capture=begin.capture,
            connector=self.connector,
            place=begin.place,
            records=self._write,
            new_pool=exchange.new_pool,
        )
        exchange.open(self.engine, self.connector)
        send(
            Ready(
                config=self.engine.config,
                block_groups=self.engine.block_groups,
                header=encode(self.engine.header()),
                layout=self.connector.layout,
                load=self.engine.load,
            )
        )

    def answer(self, message: ToInstance) -> None:
        match message:
            case Turn():
                self._turn()
            case Observe(capture):
                self.engine.capture = capture
            case _:
                self._answer(message)

    def _answer(self, message: ToInstance) -> None:
        try:
            found = self._do(message)
            answer = Answer(load=self.engine.load, found=found)
        except (RequestError, ConfigError) as error:
            kind: ErrorKind = "RequestError" if isinstance(error, RequestError) else "ConfigError"
            answer = Answer(load=self.engine.load, kind=kind, sentence=str(error), translations=error.translations)
        except Exception as error:  # a bug: reported to the cluster
            answer = Answer(load=self.engine.load, kind="other", sentence=_sentence(error))
        self._send(answer)

    def close(self) -> None:
        self._exchange.close()
        self.engine.close()

    def _do(self, message: ToInstance) -> bool:
        match message:
            case Check(specs):
                self.engine.check_requests(specs)
            case Submit(requests):
                for request in requests:
                    if request.remote is not None:
                        self.connector.expect(request.remote)
                self.engine.add_requests([request.spec for request in requests])
            case Abort(request_id):
                return self.engine.abort(request_id)
            case _:
                raise ValueError(f"unexpected message to a running instance: {type(message).__name__}")
        return True

    def _turn(self) -> None:
        error = ""
        try:
            changes = self._notifier.num_changes
            record = self.engine.take_transfers()
            load = self.engine.load
            if record is None and not load.can_step and (load.receiving or load.holding):
                self._notifier.wait(changes, IDLE_WAIT)
                self.engine.take_transfers()
            if self.engine.can_step:
                self.engine.step()
        except PeerGoneError:
            raise
        except Exception as failure:  # the engine has aborted the batch and can continue
            error = _sentence(failure)
        wrote, self._wrote = self._wrote, None
        self._send(TurnOver(load=self.engine.load, wrote=wrote, error=error))

    def _write(self, record: StepRecord, capture: Capture | None) -> None:
        found = [self.connector.take_offer(op.transfer) for op in record.ops if isinstance(op, Hold)]
        offers = [offer for offer in found if offer is not None]
        wrote = Wrote(record=encode(record), capture=encode(capture) if capture else None, offers=offers)
        if record.kind == "step":  # the last record of its turn
            self._wrote = wrote
        else:
            self._send(wrote)


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _exit(begin: Begin | None) -> None:
    """Exit after the cluster is gone, without waiting for a load in progress."""
    if begin is not None:
        with contextlib.suppress(OSError):
            socket_of(Path(begin.folder), begin.name).unlink(missing_ok=True)
            Path(begin.folder).rmdir()  # succeeds in the last process
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class ModelCache:
    """The last loaded model."""

    def __init__(self) -> None:
        self._loaded: tuple[ModelSource, LoadedModel] | None = None

    def of(self, source: ModelSource) -> LoadedModel:
        """Load the model unless it is cached. Raises ModelError, ConfigError: it is unusable."""
        if self._loaded is None or self._loaded[0] != source:
            self._loaded = None  # free the old weights first
            with freeze_gc():
                model = load_model(source.model, source.dtype, source.device, source.revision)
            if model.device.type != "cpu":
                raise ConfigError(sentence("instances.cpu", name=model.facts.name))
            if source.compiles:
                compile_in_background(model)
            self._loaded = source, model
        return self._loaded[1]


def build_worker(begin: Begin, model: ModelCache, notifier: Notifier, exchange: Exchange, send: Send) -> Worker | None:
    """Build the instance. Sends the error and returns None if that fails."""
    run_on(begin.processors)
    torch.set_num_threads(begin.num_threads)
    try:
        return Worker(begin, model.of(begin.source), notifier, exchange, send)
    except (ModelError, ConfigError) as error:
        exchange.close()
        kind: ErrorKind = "ModelError" if isinstance(error, ModelError) else "ConfigError"
        send(Failed(kind, str(error), getattr(error, "translations", {})))
    return None


def serve(begin: Begin, model: ModelCache, inbox: Inbox, peer: Peer[ToInstance]) -> None:
    """Serve the instance until `End`.

    Raises:
        PeerGoneError: the cluster is gone.
    """
    worker = build_worker(begin, model, inbox.notifier, SharedMemoryExchange(Path(begin.folder)), peer.send)
    if worker is None:
        while not isinstance(inbox.next(), End):
            pass
        return
    while not isinstance(message := inbox.next(), End):
        worker.answer(message)
    worker.close()


def main() -> None:
    peer = Peer[ToInstance](socket.socket(fileno=int(sys.argv[1])), ToInstance)
    begin: Begin | None = None
    inbox, model = Inbox(peer, lambda: _exit(begin)), ModelCache()
    with contextlib.suppress(PeerGoneError):
        while True:
            message = inbox.next()
            if isinstance(message, Begin):
                begin = message
                serve(begin, model, inbox, peer)
                gc.collect()  # free the pool
                peer.send(Ended())
    _exit(begin)


if __name__ == "__main__":
    main()
