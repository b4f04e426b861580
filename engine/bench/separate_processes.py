"""Runs of a variant in a separate process, so that the variant's memory can be measured.

The process has one model and one engine. It receives pickled cells with their requests over a pipe and returns
measurements.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

from engine.bench.drive import run_engine
from engine.bench.measurement import Measurement
from engine.bench.models import Models
from engine.bench.peers import make_peer
from engine.bench.peers.base import Peer, PeerError
from engine.bench.peers.foreign.serving import resident_bytes
from engine.bench.scenario import Cell
from engine.bench.workload import WorkloadRequest

END_SECONDS = 5.0


class SeparateProcesses:
    """Processes by model and engine; a process starts on first use."""

    def __init__(self) -> None:
        self._running: dict[tuple[Any, ...], tuple[Any, Connection]] = {}

    def run(self, cell: Cell, source: str, requests: list[WorkloadRequest]) -> Measurement:
        """Call `run_engine`, or a peer's `run`, in another process. `source`: the folder with the weights.

        Raises:
            PeerError: the call failed, or the process ended; the message names the error.
        """
        key = (cell.model, cell.dtype, cell.peer, cell.engine.enforce_eager)
        if key not in self._running:
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, source), daemon=True)
            process.start()
            theirs.close()
            self._running[key] = process, ours
        try:
            self._running[key][1].send((cell, requests))
            result: Measurement | str = self._running[key][1].recv()
        except (EOFError, OSError):
            raise PeerError("its process ended") from None
        if isinstance(result, str):
            raise PeerError(result)
        return result

    def close(self) -> None:
        """End every process. Idempotent."""
        while self._running:
            process, connection = self._running.popitem()[1]
            connection.close()
            process.join(END_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()


def _serve(connection: Connection, source: str) -> None:
    models, peers, loaded = Models(), dict[str, Peer](), dict[str, int | None]()
    try:
        while True:
            cell, requests = connection.recv()
            try:
                result: Measurement | str = _run(models, peers, loaded, source, cell, requests)
            except Exception as error:  # reported to the caller like an error of a peer
                result = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            connection.send(result)
    except EOFError:
        return
    finally:
        models.close()


def _run(
    models: Models,
    peers: dict[str, Peer],
    loaded: dict[str, int | None],
    source: str,
    cell: Cell,
    requests: list[WorkloadRequest],
) -> Measurement:
    """Run a cell. `loaded`: resident bytes after loading the model, before the first run."""
    if cell.peer is None:
        model = models.engine_model(source, cell.dtype, compiled=not cell.engine.enforce_eager)
        loaded.setdefault("bytes", resident_bytes())
        found = run_engine(model, cell.engine, requests, cell.sampling, tiers=cell.tiers, observer=cell.observer)
        found.resident_loaded_bytes = loaded["bytes"]
    else:
        if cell.peer not in peers:
            peers[cell.peer] = make_peer(cell.peer)
            peers[cell.peer].load(models, source, cell.dtype)
        found = peers[cell.peer].run(requests, cell.sampling, cell.engine)
    found.resident_bytes = resident_bytes()
    return found
