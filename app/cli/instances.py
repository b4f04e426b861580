"""Processes for the instances of a server's runs, for as long as it runs."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from app.cli.options import engine_config
from engine.config import EngineConfig

if TYPE_CHECKING:
    from engine.cluster.messages import Source
    from engine.cluster.worker_process import Workers

SPARE = 1  # runs beside the first that may have processes, too; further ones share one thread


def served_config(arguments: argparse.Namespace) -> EngineConfig:
    """What the options say of runs that are asked for without settings. Several instances of a server are processes,
    unless it is told otherwise.
    """
    is_open = arguments.instances is None
    arguments.instances = arguments.instances or "thread"
    config = engine_config(arguments)
    return replace(config, instances="process") if is_open and config.num_instances else config


@contextlib.contextmanager
def worker_processes(config: EngineConfig) -> Iterator[Callable[[Source], Workers] | None]:
    """By what a model is read from; None: no run of this server is of processes. At the end all are ended."""
    if not config.num_instances or config.instances != "process":
        yield None
        return
    made: dict[Source, Workers] = {}

    def workers_of(source: Source) -> Workers:
        from engine.cluster.worker_process import Workers

        if source not in made:
            made[source] = Workers(source, most=(1 + SPARE) * config.num_instances)
        return made[source]

    try:
        yield workers_of
    finally:
        for workers in made.values():
            workers.close()
