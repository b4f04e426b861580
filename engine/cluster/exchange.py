"""Exchange of blocks between instances in other processes."""

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
    """Access of one engine to the blocks of others, and theirs to its own. Not thread-safe."""

    @property
    def link(self) -> Link:
        """Link to the other instances."""

    @property
    def new_pool(self) -> NewPool:
        """Allocator of the engine's pools."""

    def open(self, engine: Engine, connector: TransferConnector) -> None:
        """Let other instances read the engine's blocks."""

    def close(self) -> None:
        """End all reads."""


class SharedMemoryExchange:
    """Exchange through shared memory, between processes of one machine."""

    def __init__(self, folder: Path) -> None:
        """Set up the exchange. `folder`: private folder of the engines' sockets."""
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
