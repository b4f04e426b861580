"""Instances whose messages a test delivers, in every order that is possible with processes.

    cluster ── calls ──► inbox   a working instance   outbox ── records ──► cluster

Each instance sends and receives in order. Between two instances only their messages impose an order. A pull waits until
the test runs it, and may end later than its read. Only `wait` moves the clock, so no lease expires because the machine
is busy.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from engine.cluster.build import local_cluster
from engine.cluster.cluster import Cluster
from engine.cluster.instance import Produced, RoutedRequest
from engine.cluster.local import LocalInstance
from engine.config import EngineConfig
from engine.connector.base import Received
from engine.connector.link import LocalLink, Sender
from engine.connector.transfer import TransferConnector
from engine.model.loaded import LoadedModel


class Pulls:
    """Pending transfers over the link."""

    def __init__(self) -> None:
        self.waiting = deque[Callable[[], None]]()

    def submit(self, do: Callable[..., Received], *arguments: object) -> Future[Received]:
        future: Future[Received] = Future()
        self.waiting.append(lambda: future.set_result(do(*arguments)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.waiting.clear()


class StagedConnector(TransferConnector):
    def __init__(self, *arguments: Any, **more: Any) -> None:
        self.waiting = Pulls()
        super().__init__(*arguments, **{**more, "pulls": self.waiting})


class StagedInstance(LocalInstance):
    """Instance that works on `work`, and whose messages arrive on `deliver`."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._inbox = deque[Sequence[RoutedRequest]]()
        self._delivered: list[Produced] = []
        self.delivers_last_messages = True  # whether `kill` delivers pending messages
        self.failures = 0  # failed steps

    @property
    def is_busy(self) -> bool:
        load = self.engine.load
        return self.is_ready and (len(self._inbox) > 0 or load.can_step or load.receiving > 0 or load.holding > 0)

    @property
    def num_pulls(self) -> int:
        return len(self._pulls.waiting) if self.is_ready else 0

    @property
    def num_undelivered(self) -> int:
        return len(self._produced)

    @property
    def _pulls(self) -> Pulls:
        assert isinstance(self._connector, StagedConnector)
        return self._connector.waiting

    def send(self, requests: Sequence[RoutedRequest]) -> None:
        self._inbox.append(requests)

    def abort(self, request_id: str) -> bool:
        self._receive()
        found = super().abort(request_id)
        self.deliver(self.num_undelivered)
        return found

    def begin_turn(self) -> None:
        """Queue a turn for `work`."""

    def work(self) -> None:
        """Read the inbox, then take a turn. Failed steps are counted."""
        self._receive()
        try:
            self.engine.take_transfers()
            if self.engine.can_step:
                self.engine.step()
        except MemoryError:
            self.failures += 1

    def pull(self) -> None:
        """Run the oldest pending transfer."""
        self._pulls.waiting.popleft()()

    def deliver(self, count: int = 1) -> None:
        for _ in range(count):
            self._delivered.append(self._produced.pop(0))

    def take(self) -> list[Produced]:
        delivered, self._delivered = self._delivered, []
        return delivered

    def kill(self) -> None:
        if self.is_ready:
            super().kill()
            if self.delivers_last_messages:
                self.deliver(self.num_undelivered)

    def _receive(self) -> None:
        while self._inbox:
            self.submit(self._inbox.popleft())


class Lagging(LocalLink):
    """Link that can call back between the read of blocks and the receiver's check of the clock."""

    def __init__(self, senders: Mapping[str, Sender]) -> None:
        super().__init__(senders)
        self.then: list[Callable[[], object]] = []

    def to(self, engine_id: str) -> Any:
        return _LaggingSender(super().to(engine_id), self.then)


class _LaggingSender:
    def __init__(self, sender: Sender, then: list[Callable[[], object]]) -> None:
        self._sender, self._then = sender, then
        self.renew, self.received = sender.renew, sender.received

    def read(self, transfer: str, blocks: Sequence[tuple[int, int]]) -> list[bytes]:
        contents = self._sender.read(transfer, blocks)
        while self._then:
            self._then.pop()()
        return contents


class StagedCluster:
    """Cluster of staged instances, with the links between them."""

    def __init__(self, model: LoadedModel, config: EngineConfig, **more: Any) -> None:
        self.links: list[Lagging] = []
        self.now = 0.0  # seconds

        def link(senders: Mapping[str, Sender]) -> Lagging:
            self.links.append(Lagging(senders))
            return self.links[-1]

        connector = partial(StagedConnector, clock=lambda: self.now)
        self.cluster: Cluster = local_cluster(
            model, config, link=link, make_connector=connector, make_instance=StagedInstance, **more
        )

    def __getitem__(self, index: int) -> StagedInstance:
        one = self.cluster.instances[index]
        assert isinstance(one, StagedInstance)
        return one

    def __len__(self) -> int:
        return len(self.cluster.instances)

    def deliver(self, index: int) -> None:
        """Deliver the next record of an instance to the cluster."""
        self[index].deliver()
        self.cluster.step(0.0)

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def lose(self, index: int) -> None:
        self.cluster.lose(index)

    def after_the_next_read(self, do: Callable[[], object]) -> None:
        """Call `do` once after the next read of blocks over any link."""
        for link in self.links:
            link.then.append(do)
