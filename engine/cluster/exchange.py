"""How an instance that is not of the cluster's thread reaches the blocks of others, and they its own."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from engine.cache.kv_plane import NewPool
from engine.connector.link import Link
from engine.connector.shared_memory import BlockServer, SharedMemoryLink
from engine.connector.shared_pools import SharedPools
from engine.connector.transfer import TransferConnector
from engine.engine import Engine


class Exchange(Protocol):
    """Exchange of an engine. Not thread-safe."""

    @property
    def link(self) -> Link:
        """To the others."""

    @property
    def new_pool(self) -> NewPool:
        """Where the engine's blocks lie."""

    def open(self, engine: Engine, connector: TransferConnector) -> None:
        """From now on others may read them."""

    def close(self) -> None:
        """End all reads."""


class SharedMemoryExchange:
    """Between processes of one machine."""

    def __init__(self, folder: Path) -> None:
        """`folder`: private, where the engines meet."""
        self._folder = folder
        self._server: BlockServer | None = None
        self.link: Link = SharedMemoryLink(folder)
        self._pools = SharedPools()

    @property
    def new_pool(self) -> NewPool:
        return self._pools

    def open(self, engine: Engine, connector: TransferConnector) -> None:
        regions = self._pools.regions(engine.kv_caches)
        self._server = BlockServer(self._folder, connector.engine_id, connector, self._pools, regions)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._pools.close()
