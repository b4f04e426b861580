"""Process of one instance: an engine with its pool in shared memory, called by a cluster over a socket.

    python -m engine.cluster.worker FD

FD: the number of a Unix socket that it inherits (`messages.py`). It ends on request or when the cluster is gone.
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
from engine.cluster.inbox import Bell, Inbox
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

NAP = 0.05  # seconds that a turn without work waits for a transfer: leases end by themselves
PULLS = 4  # sequences that are read for at once

Say = Callable[[ToCluster], None]


class Worker:
    """Engine of an instance, and its answers to messages. `say` must have sent a message when it returns, because a
    record must be sent before another instance can write one that follows from it.
    """

    def __init__(self, begin: Begin, model: LoadedModel, bell: Bell, exchange: Exchange, say: Say) -> None:
        """Raises ModelError, ConfigError: the instance cannot be built."""
        self._bell, self._exchange, self._say = bell, exchange, say
        self._wrote: Wrote | None = None  # by the step of this turn
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
            notify=bell.wake,
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
        say(
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
        except Exception as error:  # a fault of the program: the cluster decides what it costs
            answer = Answer(load=self.engine.load, kind="other", sentence=_sentence(error))
        self._say(answer)

    def close(self) -> None:
        self._exchange.close()
        self.engine.close()

    def _do(self, message: ToInstance) -> bool:
        match message:
            case Check(specs):
                self.engine.check_requests(specs)
            case Submit(asks):
                for ask in asks:
                    if ask.remote is not None:
                        self.connector.expect(ask.remote)
                self.engine.add_requests([ask.spec for ask in asks])
            case Abort(request_id):
                return self.engine.abort(request_id)
            case _:
                raise ValueError(f"an instance that has begun does not understand {type(message).__name__}")
        return True

    def _turn(self) -> None:
        error = ""
        try:
            changes = self._bell.num_changes
            came = self.engine.take_transfers()
            load = self.engine.load
            if came is None and not load.can_step and (load.receiving or load.holding):
                self._bell.wait(changes, NAP)
                self.engine.take_transfers()
            if self.engine.can_step:
                self.engine.step()
        except PeerGoneError:
            raise
        except Exception as failure:  # the engine has aborted its batch and is sound
            error = _sentence(failure)
        wrote, self._wrote = self._wrote, None
        self._say(TurnOver(load=self.engine.load, wrote=wrote, error=error))

    def _write(self, record: StepRecord, capture: Capture | None) -> None:
        found = [self.connector.take_offer(op.transfer) for op in record.ops if isinstance(op, Hold)]
        offers = [offer for offer in found if offer is not None]
        wrote = Wrote(record=encode(record), capture=encode(capture) if capture else None, offers=offers)
        if record.kind == "step":  # the last one of its turn
            self._wrote = wrote
        else:
            self._say(wrote)


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _leave(begin: Begin | None) -> None:
    """Clean up for a cluster that is gone, without waiting for a load in progress."""
    if begin is not None:
        with contextlib.suppress(OSError):
            socket_of(Path(begin.folder), begin.name).unlink(missing_ok=True)
            Path(begin.folder).rmdir()  # the last one does
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class Model:
    """Weights, loaded on first use."""

    def __init__(self) -> None:
        self._loaded: tuple[ModelSource, LoadedModel] | None = None

    def of(self, source: ModelSource) -> LoadedModel:
        """Return the loaded model. Raises ModelError, ConfigError: it is unusable."""
        if self._loaded is None or self._loaded[0] != source:
            self._loaded = None  # not both at once
            with freeze_gc():
                model = load_model(source.model, source.dtype, source.device, source.revision)
            if model.device.type != "cpu":
                raise ConfigError(sentence("instances.cpu", name=model.facts.name))
            if source.compiles:
                compile_in_background(model)
            self._loaded = source, model
        return self._loaded[1]


def begun(begin: Begin, model: Model, bell: Bell, exchange: Exchange, say: Say) -> Worker | None:
    """Build the instance of `begin`. Returns None if it fails; then the error was sent."""
    run_on(begin.processors)
    torch.set_num_threads(begin.num_threads)
    try:
        return Worker(begin, model.of(begin.source), bell, exchange, say)
    except (ModelError, ConfigError) as error:
        exchange.close()
        kind: ErrorKind = "ModelError" if isinstance(error, ModelError) else "ConfigError"
        say(Failed(kind, str(error), getattr(error, "translations", {})))
    return None


def serve(begin: Begin, model: Model, inbox: Inbox, peer: Peer[ToInstance]) -> None:
    """Serve as that instance until it is ended.

    Raises:
        PeerGoneError: the cluster is gone.
    """
    worker = begun(begin, model, inbox.bell, SharedMemoryExchange(Path(begin.folder)), peer.send)
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
    inbox, model = Inbox(peer, lambda: _leave(begin)), Model()
    with contextlib.suppress(PeerGoneError):
        while True:
            message = inbox.next()
            if isinstance(message, Begin):
                begin = message
                serve(begin, model, inbox, peer)
                gc.collect()  # the pool
                peer.send(Ended())
    _leave(begin)


if __name__ == "__main__":
    main()
