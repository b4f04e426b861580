"""Interface of an instance: in this thread, in a process, or on another machine."""

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
    """The instance ended unexpectedly; the message is one sentence."""


class RoutedRequest(NamedTuple):
    """Request for an instance. `remote`: its blocks on another instance."""

    spec: RequestSpec
    remote: RemoteBlocks | None = None


class Produced(NamedTuple):
    """Record of an instance in local numbering, its captured arrays, and its new offers to other instances."""

    record: StepRecord
    capture: Capture | None
    offers: list[RemoteBlocks]


class Instance(Protocol):
    """Engine and its pool. Called on one thread; its output is in the order of events.

    Every method but `close` and `take` may raise InstanceGoneError.
    """

    @property
    def name(self) -> str:
        """Engine id of the instance, for the link and the log."""

    @property
    def role(self) -> Role: ...
    @property
    def num_threads(self) -> int:
        """Number of compute threads."""

    @property
    def config(self) -> EngineConfig:
        """Resolved configuration."""

    @property
    def block_groups(self) -> list[BlockGroup]:
        """Block groups, with block ids of the merged log."""

    @property
    def is_ready(self) -> bool:
        """Whether the weights are loaded, so that calls do not wait for them."""

    @property
    def load(self) -> Load: ...
    def check(self, specs: Sequence[RequestSpec]) -> None:
        """Raise the errors of `submit` without submitting."""

    def submit(self, requests: Sequence[RoutedRequest]) -> None:
        """Submit all requests or none, as one record.

        Raises:
            RequestError, ConfigError: a request is refused.
        """

    def send(self, requests: Sequence[RoutedRequest]) -> None:
        """Submit checked requests. Does not wait for an instance in another process."""

    def abort(self, request_id: str) -> bool:
        """Abort a request. Returns False if it is unknown or already finished."""

    def observe(self, capture: CaptureRequest | None) -> None:
        """Set which arrays the next steps record."""

    def begin_turn(self) -> None:
        """Process finished transfers, then run a step if there is work.

        An instance in another process does this in parallel, and handles other messages before its next turn.
        """

    @property
    def num_turns(self) -> int:
        """Number of turns that are queued or running."""

    @property
    def waits_on(self) -> int | None:
        """File descriptor that becomes readable with output; None: calls return with their output ready."""

    def take(self) -> list[Produced]:
        """Return the output since the last call."""

    def take_error(self) -> str | None:
        """Return and clear the error of a failed step. The step's requests are aborted; the instance continues."""

    def take_exit_cause(self) -> str | None:
        """Return and clear the cause of an unexpected end, or None. Reported after all earlier output was taken."""

    def kill(self) -> None:
        """Kill the instance; its cached blocks are lost."""

    def release(self) -> None:
        """Cancel the transfers that wait for a link on threads of this process."""

    def close(self) -> None:
        """Close the instance. Idempotent."""
