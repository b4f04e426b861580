"""Processes for the instances of a server's runs, for the server's lifetime."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from app.cli.options import UserError, engine_config
from engine.config import EngineConfig

if TYPE_CHECKING:
    from engine.cluster.messages import ModelSource
    from engine.cluster.worker_process import Workers

SPARE = 1  # further runs with processes; all others share one thread


def served_config(arguments: argparse.Namespace) -> EngineConfig:
    """Return the default configuration of runs. Several instances are processes unless --instances is set."""
    is_unset = arguments.instances is None
    arguments.instances = arguments.instances or "thread"
    config = engine_config(arguments)
    return replace(config, instances="process") if is_unset and config.num_instances else config


def add_ray_option(group: Any) -> None:
    """Add `--ray-address`."""
    group.add_argument(
        "--ray-address",
        metavar="ADDRESS",
        help="Ray cluster of --instances ray, for example ray://HOST:10001 (default: a new one on this machine)",
    )


def _workers(source: ModelSource, most: int) -> Workers:
    from engine.cluster.worker_process import Workers

    return Workers(source, most=most)


def _ray_workers(source: ModelSource, address: str | None, most: int) -> Workers:
    from engine.cluster.ray_worker import RayWorkers

    return RayWorkers(source, address, most=most)


@contextlib.contextmanager
def worker_processes(config: EngineConfig, address: str | None) -> Iterator[Callable[[ModelSource], Workers] | None]:
    """Yield a factory of worker pools by model source, or None if this server runs no processes. Closes all pools.

    `address`: the Ray cluster's.

    Raises:
        UserError: Ray is configured but not installed.
    """
    if not config.num_instances or config.instances == "thread":
        yield None
        return
    if config.instances == "ray" and importlib.util.find_spec("ray") is None:
        raise UserError("--instances ray needs the package ray: pip install 'kvtheater[ray]'")
    pools: dict[ModelSource, Workers] = {}
    # Ray waits forever for an actor for which it has no free processor, so there are no spare ones
    most = config.num_instances if config.instances == "ray" else (1 + SPARE) * config.num_instances

    def workers_of(source: ModelSource) -> Workers:
        if source not in pools:
            pools[source] = _ray_workers(source, address, most) if config.instances == "ray" else _workers(source, most)
        return pools[source]

    try:
        yield workers_of
    finally:
        for workers in pools.values():
            workers.close()
