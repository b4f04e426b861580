"""Messages between a cluster and an instance in another process.

cluster                          instance
Begin              ────────►
                   ◄────────     Ready, or Failed
Check Submit Abort ────────►
                   ◄────────     Wrote for each record of the call, then Answer
Observe            ────────►     no answer
Turn               ────────►     several may be queued: each begins when no other message is pending
                   ◄────────     Wrote for each record, as soon as it exists, then TurnOver
End                ────────►     the instance ends; it also ends if the connection is closed
                   ◄────────     Ended
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

from engine.cluster.instance import Role, RoutedRequest
from engine.config import EngineConfig, FailurePolicy
from engine.connector.link import RemoteBlocks
from engine.model.capture import CaptureRequest
from engine.requests.load import Load
from engine.requests.request_spec import RequestSpec
from engine.setup.id_namespace import IdNamespace
from engine.trace.records import BlockGroup


class ModelSource(NamedTuple):
    """Source of the weights: arguments of `load_model`."""

    model: str | None = None
    dtype: str = "auto"
    device: str = "cpu"
    revision: str | None = None
    compiles: bool = False  # whether to compile the forward pass in the background


ErrorKind = Literal["RequestError", "ConfigError", "ModelError", "other"]


class Begin(Struct, tag=True, kw_only=True):
    """Start of an instance."""

    name: str
    role: Role
    folder: str  # private; holds the sockets of all instances of the cluster
    source: ModelSource
    config: EngineConfig
    place: IdNamespace
    capture: CaptureRequest | None
    num_threads: int
    processors: list[int]  # CPU affinity
    lease: float  # seconds
    policy: FailurePolicy
    bytes_per_second: float | None  # throttles its link; None: unlimited


class Check(Struct, tag=True):
    specs: list[RequestSpec]


class Submit(Struct, tag=True):
    requests: list[RoutedRequest]


class Abort(Struct, tag=True):
    request_id: str


class Observe(Struct, tag=True):
    capture: CaptureRequest | None


class Turn(Struct, tag=True):
    pass


class End(Struct, tag=True):
    pass


class Ready(Struct, tag=True, kw_only=True):
    config: EngineConfig  # as resolved
    block_groups: list[BlockGroup]
    header: bytes  # `Header` of a log of this instance only
    layout: bytes  # digest of its block layout
    load: Load


class Failed(Struct, tag=True):
    """The instance could not be built."""

    kind: ErrorKind
    sentence: str
    translations: dict[str, str] = {}  # the sentence in other languages


class Wrote(Struct, tag=True, kw_only=True):
    record: bytes  # `StepRecord`
    capture: bytes | None  # `Capture`
    offers: list[RemoteBlocks]


class Answer(Struct, tag=True, kw_only=True):
    load: Load
    found: bool = True  # result of Abort
    kind: ErrorKind | None = None  # kind of the error; None: success
    sentence: str = ""
    translations: dict[str, str] = {}  # the sentence in other languages


class TurnOver(Struct, tag=True, kw_only=True):
    load: Load
    wrote: Wrote | None = None  # record of the step, in the same message because this is the most frequent one
    error: str = ""  # of a failed step: its requests are aborted, and the instance continues


class Ended(Struct, tag=True):
    pass


ToInstance = Begin | Check | Submit | Abort | Observe | Turn | End
ToCluster = Ready | Failed | Wrote | Answer | TurnOver | Ended
