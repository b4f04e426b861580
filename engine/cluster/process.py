"""Instance in another process. Its steps run in parallel with those of other instances."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from engine.cluster.instance import Instance, InstanceGoneError, Produced, Role, RoutedRequest
from engine.cluster.messages import (
    Abort,
    Answer,
    Begin,
    Check,
    End,
    Ended,
    Failed,
    Observe,
    Ready,
    Submit,
    ToCluster,
    ToInstance,
    Turn,
    TurnOver,
    Wrote,
)
from engine.cluster.worker_process import END_SECONDS, Workers
from engine.config import ConfigError, EngineConfig
from engine.connector.peer import PeerGoneError, wait_for_any
from engine.connector.shared_memory import socket_of
from engine.model.capture import CaptureRequest
from engine.model.errors import ModelError
from engine.options.refusal import Sentence, sentence
from engine.requests.load import Load
from engine.requests.request_spec import RequestError, RequestSpec
from engine.trace.codec import TraceFormatError, decode
from engine.trace.records import BlockGroup, Capture, Header, StepRecord

START_SECONDS = 600.0  # for a large model on a slow disk
ANSWER_SECONDS = 120.0  # a process whose expected message takes longer is killed


class ProcessInstance(Instance):
    """Instance in a process, which loads its weights in parallel with the caller. Called on one thread."""

    def __init__(
        self,
        begin: Begin,
        workers: Workers,
        *,
        others: Callable[[], Iterable[ProcessInstance]] = lambda: (),
        check: Callable[[Sequence[RequestSpec]], object] | None = None,
    ) -> None:
        """Start the process.

        Args:
            workers: pool of processes.
            others: instances that begin their next turns while a call waits for this one.
            check: checks requests like the instance; None: a message to the instance does.

        Raises:
            ValueError: invalid name.
        """
        self._socket = socket_of(Path(begin.folder), begin.name)
        self._begin, self._workers, self._others, self._check = begin, workers, others, check
        self._produced: list[Produced] = []
        self._load = Load()
        self._num_turns = 0  # queued or running turns
        self._received_at = 0.0  # time of its last message, or of the call that it must answer
        self._end_cause: str | None = None  # cause of its end
        self._exit_cause: str | None = None  # the same, until `take_exit_cause`
        self._errors: list[str] = []
        self._ready: Ready | None = None
        self._failure: Exception | None = None  # error of its start
        self._answer: Answer | None = None
        self._is_waited_for = deque[bool]()  # for each pending answer, in order
        self._worker = workers.take()
        with contextlib.suppress(InstanceGoneError):  # its end is reported by `take_exit_cause`
            self._send(begin)

    @property
    def name(self) -> str:
        return self._begin.name

    @property
    def role(self) -> Role:
        return self._begin.role

    @property
    def num_threads(self) -> int:
        return self._begin.num_threads

    @property
    def pid(self) -> int:
        return self._worker.pid

    @property
    def config(self) -> EngineConfig:
        return self.wait_until_ready().config

    @property
    def block_groups(self) -> list[BlockGroup]:
        return self.wait_until_ready().block_groups

    @property
    def header(self) -> Header:
        """Header of a log of this instance only."""
        return decode(self.wait_until_ready().header, Header)

    @property
    def layout(self) -> bytes:
        """Digest of its block layout. Instances with different layouts cannot exchange blocks."""
        return self.wait_until_ready().layout

    @property
    def load(self) -> Load:
        return self._load

    def fileno(self) -> int:
        return self._worker.peer.fileno()

    @property
    def has_ended(self) -> bool:
        """Whether the instance was closed or has ended unexpectedly."""
        return self._end_cause is not None

    def wait_until_ready(self) -> Ready:
        """Wait until the weights are loaded. Returns the instance's first message.

        Raises:
            ModelError, ConfigError: the instance could not be built.
            InstanceGoneError: it ended before that.
        """
        while self._ready is None:
            self._wait_for_message(START_SECONDS)
        return self._ready

    @property
    def is_ready(self) -> bool:
        """Whether its weights are loaded."""
        self._read_messages()
        return self._ready is not None and not self.has_ended

    @property
    def was_ready(self) -> bool:
        """Whether its weights were loaded, even if it has ended since."""
        return self._ready is not None

    def check(self, specs: Sequence[RequestSpec]) -> None:
        if self._check is not None:
            self._check(specs)
        else:
            self._ask(Check(list(specs)))

    def submit(self, requests: Sequence[RoutedRequest]) -> None:
        self._ask(Submit(list(requests)))

    def send(self, requests: Sequence[RoutedRequest]) -> None:
        self._send(Submit(list(requests)))
        self._is_waited_for.append(False)

    def abort(self, request_id: str) -> bool:
        return self._ask(Abort(request_id)).found

    def observe(self, capture: CaptureRequest | None) -> None:
        self._send(Observe(capture))  # no answer is needed, since messages are handled in order

    def begin_turn(self) -> None:
        self.wait_until_ready()
        self._send(Turn())
        if not self._num_turns:
            self._received_at = time.monotonic()
        self._num_turns += 1

    @property
    def num_turns(self) -> int:
        return self._num_turns

    @property
    def waits_on(self) -> int | None:
        return None if self.has_ended else self.fileno()

    def take(self) -> list[Produced]:
        if not self._read_messages() and self._num_turns and time.monotonic() - self._received_at > ANSWER_SECONDS:
            self._end(f"it sent no message for {ANSWER_SECONDS:g} s")
        produced, self._produced = self._produced, []
        return produced

    def take_exit_cause(self) -> str | None:
        if self._produced:
            return None
        cause, self._exit_cause = self._exit_cause, None
        return cause

    def take_error(self) -> str | None:
        return self._errors.pop(0) if self._errors else None

    def kill(self) -> None:
        if not self.has_ended:
            self._worker.kill()
            self._end()

    def release(self) -> None:
        pass  # its transfers wait in the other process

    def close(self) -> None:
        if self.has_ended:
            return
        until = time.monotonic() + END_SECONDS
        with contextlib.suppress(PeerGoneError, TimeoutError):
            self._worker.peer.send(End(), END_SECONDS)
            while not isinstance(self._worker.peer.receive(until - time.monotonic()), Ended):
                pass
            self._mark_ended("it was closed")
            self._workers.give_back(self._worker)
            return
        self._mark_ended("it was closed")
        self._worker.kill()  # it is still computing
        self._worker.close()

    def _ask(self, message: ToInstance) -> Answer:
        self.wait_until_ready()
        self._send(message)
        self._is_waited_for.append(True)
        while self._answer is None:
            self._wait_for_message(ANSWER_SECONDS)
        answer, self._answer = self._answer, None
        if answer.kind == "RequestError":
            raise RequestError(Sentence.of({"en": answer.sentence, **answer.translations}))
        if answer.kind == "ConfigError":
            raise ConfigError(Sentence.of({"en": answer.sentence, **answer.translations}))
        if answer.kind:
            raise RuntimeError(f"instance {self.name}: {answer.sentence}")
        return answer

    def _send(self, message: ToInstance) -> None:
        if self.has_ended:
            self._raise_gone()
        try:
            self._worker.peer.send(message, ANSWER_SECONDS)
        except PeerGoneError:
            self._end()
            self._raise_gone()

    def _wait_for_message(self, seconds: float) -> None:
        """Wait for a message. Other instances whose turn ends meanwhile begin their next one."""
        until = time.monotonic() + seconds
        while True:
            if self._read_messages():
                return
            if self.has_ended:  # the end of the instance counts as a message
                self._raise_gone()
            others = {one.fileno(): one for one in self._others() if one is not self and one.num_turns}
            ready = wait_for_any([self.fileno(), *others], until - time.monotonic())
            if not ready:
                self._end(f"it sent no message for {seconds:g} s")
            for one in (others[fileno] for fileno in ready if fileno in others):
                one._read_messages()
                if not one.num_turns and one.load.can_step:
                    with contextlib.suppress(InstanceGoneError):
                        one.begin_turn()

    def _read_messages(self) -> bool:
        """Read its messages; return whether there were any."""
        if self.has_ended:
            return False
        try:
            messages = self._worker.peer.receive_all()
        except PeerGoneError:
            self._end()
            return False
        if messages:
            self._received_at = time.monotonic()
        for message in messages:
            self._note(message)
        return bool(messages)

    def _note(self, message: ToCluster) -> None:
        match message:
            case Ready():
                self._ready, self._load = message, message.load
            case Failed(kind, text, translations):
                kinds = {"ModelError": ModelError, "ConfigError": ConfigError}
                self._failure = kinds.get(kind, InstanceGoneError)(Sentence.of({"en": text, **translations}))
                self.close()
                self._exit_cause = text
            case Answer():
                self._load = message.load
                if self._is_waited_for.popleft():
                    self._answer = message
                elif message.kind:  # although `check` accepted it
                    self._end(f"it refused a request that passed its check: {message.sentence}")
            case Wrote():
                self._note_written(message)
            case Ended():
                pass  # `close` waits for this message
            case TurnOver():
                self._load, self._num_turns = message.load, self._num_turns - 1
                if message.wrote is not None:
                    self._note_written(message.wrote)
                if message.error:
                    self._errors.append(message.error)

    def _note_written(self, wrote: Wrote) -> None:
        try:
            capture = None if wrote.capture is None else decode(wrote.capture, Capture)
            record = decode(wrote.record, StepRecord)
        except TraceFormatError as error:
            self._end(f"it sent an invalid record: {error}")
            return
        self._produced.append(Produced(record, capture, wrote.offers))

    def _raise_gone(self) -> NoReturn:
        if self._failure is not None:
            raise self._failure
        raise InstanceGoneError(sentence("instances.ended", name=self.name, how=self._end_cause))

    def _end(self, why: str = "") -> None:
        """Handle its end, or kill it for the reason `why`. Processes its earlier messages."""
        if self.has_ended:
            return
        if why:
            self._worker.kill()
        self._end_cause = self._exit_cause = why or self._worker.wait()
        with contextlib.suppress(PeerGoneError):
            while True:  # until PeerGoneError
                for message in self._worker.peer.receive_all():
                    self._note(message)
        self._mark_ended(self._end_cause)
        self._worker.close()

    def _mark_ended(self, how: str) -> None:
        self._end_cause = how
        self._num_turns, self._load = 0, Load()
        self._socket.unlink(missing_ok=True)  # a killed process leaves it
