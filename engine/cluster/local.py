"""Instance in the caller's thread. Calls are synchronous, so a run is reproducible."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from engine.cluster.instance import Instance, Load, Produced, Role, RoutedRequest
from engine.config import EngineConfig
from engine.connector.link import RemoteBlocks
from engine.connector.transfer import TransferConnector
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.requests.request_spec import RequestSpec
from engine.setup.id_namespace import IdNamespace
from engine.trace.operations import Hold
from engine.trace.records import BlockGroup, Capture, StepRecord


class LocalInstance(Instance):
    """An engine, its pool and its connector."""

    def __init__(
        self,
        name: str,
        role: Role,
        model: LoadedModel,
        config: EngineConfig,
        connector: TransferConnector,
        place: IdNamespace,
        *,
        killed: Callable[[], object] = lambda: None,
    ) -> None:
        """`killed`: called by `kill`, so that the link removes its sender."""
        self._name, self._role = name, role
        self._connector, self._killed = connector, killed
        self._produced: list[Produced] = []
        self._exit_cause: str | None = None  # cause of its end
        self._untaken_cause: str | None = None  # the same, until `take_exit_cause`
        self._error: Exception | None = None
        self.engine = Engine(model, config, connector=connector, place=place, records=self._take_record)

    @property
    def name(self) -> str:
        return self._name

    @property
    def role(self) -> Role:
        return self._role

    @property
    def num_threads(self) -> int:
        return torch.get_num_threads()

    @property
    def config(self) -> EngineConfig:
        return self.engine.config

    @property
    def block_groups(self) -> list[BlockGroup]:
        return self.engine.block_groups

    @property
    def is_ready(self) -> bool:
        return self._exit_cause is None

    @property
    def load(self) -> Load:
        return self.engine.load

    def check(self, specs: Sequence[RequestSpec]) -> None:
        self.engine.check_requests(specs)

    def submit(self, requests: Sequence[RoutedRequest]) -> None:
        for request in requests:
            if request.remote is not None:
                self._connector.expect(request.remote)
        self.engine.add_requests([request.spec for request in requests])

    def send(self, requests: Sequence[RoutedRequest]) -> None:
        self.submit(requests)

    def abort(self, request_id: str) -> bool:
        return self.engine.abort(request_id)

    def observe(self, capture: CaptureRequest | None) -> None:
        self.engine.capture = capture

    def begin_turn(self) -> None:
        if self._exit_cause is not None:
            return
        self.engine.take_transfers()
        if self.engine.can_step:
            self.engine.step()

    @property
    def num_turns(self) -> int:
        return 0

    @property
    def waits_on(self) -> int | None:
        return None

    def take(self) -> list[Produced]:
        produced, self._produced = self._produced, []
        return produced

    def kill(self) -> None:
        self._exit_cause = self._untaken_cause = "killed"
        self._killed()
        self.close()

    def take_error(self) -> str | None:
        return None  # `begin_turn` raises it

    def take_exit_cause(self) -> str | None:
        cause, self._untaken_cause = self._untaken_cause, None
        return cause

    def release(self) -> None:
        self._connector.close()

    def close(self) -> None:
        self.engine.close()

    def _take_record(self, record: StepRecord, capture: Capture | None) -> None:
        offers = [self._connector.take_offer(op.transfer) for op in record.ops if isinstance(op, Hold)]
        self._produced.append(Produced(record, capture, [offer for offer in offers if isinstance(offer, RemoteBlocks)]))
