"""Interface of an instance for its cluster: in this thread, in a process of its own, or on another machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from engine.config import EngineConfig
from engine.connector.link import RemoteBlocks
from engine.model.capture import CaptureRequest
from engine.requests.load import Load as Load
from engine.requests.request_spec import RequestSpec
from engine.trace.records import BlockGroup, Capture, StepRecord

Role = Literal["prefill", "decode", "mixed"]


class InstanceGoneError(RuntimeError):
    """The instance ended unexpectedly; the message says how, in one sentence."""


class Ask(NamedTuple):
    """A request for an instance; `remote`: what another one holds for it."""

    spec: RequestSpec
    remote: RemoteBlocks | None = None


class Produced(NamedTuple):
    """A record, as the instance counts records and steps, with its arrays, and what it now holds for others."""

    record: StepRecord
    capture: Capture | None
    offers: list[RemoteBlocks]


class Instance(Protocol):
    """Engine and its pool. Called on one thread; its output is taken in the order of its events.

    Every method but `close` and `take` may raise InstanceGoneError.
    """

    @property
    def name(self) -> str:
        """Its engine id, for the link and the log."""

    @property
    def role(self) -> Role: ...
    @property
    def num_threads(self) -> int:
        """That it computes with."""

    @property
    def config(self) -> EngineConfig:
        """As resolved."""

    @property
    def block_groups(self) -> list[BlockGroup]:
        """With the ids of its blocks in the common log."""

    @property
    def is_ready(self) -> bool:
        """Whether its weights are loaded, so that a call does not wait for them."""

    @property
    def load(self) -> Load: ...
    def check(self, specs: Sequence[RequestSpec]) -> None:
        """Raises what `submit` would, and does nothing."""

    def submit(self, asks: Sequence[Ask]) -> None:
        """All or none, as one record.

        Raises:
            RequestError, ConfigError: why not.
        """

    def send(self, asks: Sequence[Ask]) -> None:
        """`submit`, of what `check` has let pass. An instance that is a process is not waited for: its record comes
        in time.
        """

    def abort(self, request_id: str) -> bool:
        """Finish a request now. False when it is unknown or already finished."""

    def observe(self, capture: CaptureRequest | None) -> None:
        """Which arrays its steps record from now on."""

    def begin_turn(self) -> None:
        """Process finished transfers, then run a step if there is work. An instance in a process does it in parallel
        with
        the caller, one turn after the other; other requests to it meanwhile come before the next turn.
        """

    @property
    def num_turns(self) -> int:
        """That were begun and are not over."""

    @property
    def waits_on(self) -> int | None:
        """File descriptor that becomes readable when it has output; None: it has output only after a call."""

    def take(self) -> list[Produced]:
        """Return the output since the last call."""

    def take_error(self) -> str | None:
        """Return the error of a failed step that raised nothing, once. Its requests are aborted, and the instance
        continues.
        """

    def take_gone(self) -> str | None:
        """Return how it ended unexpectedly, once. Its earlier output is taken first."""

    def kill(self) -> None:
        """End it at once, with what is in its pool, whatever it was doing."""

    def let_go(self) -> None:
        """End the transfers that wait for a link on threads of this process."""

    def close(self) -> None:
        """End it. Idempotent."""
