"""Start of the instance processes of one cluster, and the private folder of their sockets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from typing import Self

import torch

from engine.cluster.instance import Role
from engine.cluster.messages import Begin
from engine.cluster.process import ProcessInstance
from engine.cluster.worker_process import Workers
from engine.config import EngineConfig, FailurePolicy
from engine.connector.transfer import LEASE
from engine.model.capture import CaptureRequest
from engine.requests.request_spec import RequestSpec
from engine.setup.id_namespace import SINGLE, IdNamespace
from engine.system import host


def threads_per_instance(num_instances: int) -> int:
    """Return the number of threads per instance, so that all instances together use each processor at most once.

    The total is at most the number of threads of this process (OMP_NUM_THREADS).
    """
    return max(1, min(len(host.processors()), torch.get_num_threads()) // num_instances)


class Processes:
    """Starts instance processes. `close` ends them and removes the folder."""

    def __init__(
        self,
        workers: Workers,
        *,
        lease: float = LEASE,
        policy: FailurePolicy = "recompute",
        bytes_per_second: float | None = None,
    ) -> None:
        """Create the folder.

        `workers`: closed by the caller. `lease`, `policy`: see `TransferConnector`; `bytes_per_second`: throttles
        reads, None: unlimited.
        """
        self._workers = workers
        self._lease, self._policy, self._rate = lease, policy, bytes_per_second
        self.folder = tempfile.mkdtemp(prefix="kvtheater-")  # private: 0700
        self._started: list[ProcessInstance] = []

    def start(
        self,
        name: str,
        role: Role,
        config: EngineConfig,
        place: IdNamespace = SINGLE,
        *,
        num_threads: int = 1,
        processors: list[int] | None = None,
        capture: CaptureRequest | None = None,
        check: Callable[[Sequence[RequestSpec]], object] | None = None,
    ) -> ProcessInstance:
        """Start or restart an instance without waiting for it.

        `config`: must set `num_blocks` if ids of other instances follow; `processors`: CPU affinity, None: that of this
        process; `check`: see `ProcessInstance`.

        Raises:
            ValueError: invalid or duplicate name.
        """
        self._started = [one for one in self._started if not one.has_ended]
        if any(one.name == name for one in self._started):
            raise ValueError(f"an instance named {name} is already running")
        instance = ProcessInstance(
            Begin(
                name=name,
                role=role,
                folder=self.folder,
                source=self._workers.source,
                config=config,
                place=place,
                capture=capture,
                num_threads=num_threads,
                processors=processors or host.processors(),
                lease=self._lease,
                policy=self._policy,
                bytes_per_second=self._rate,
            ),
            self._workers,
            others=lambda: self._started,
            check=check,
        )
        self._started.append(instance)
        return instance

    def close(self) -> None:
        """End all processes and remove the folder. Idempotent."""
        for instance in self._started:
            instance.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
