"""Link between Ray actors: the sender copies blocks to Ray's object store, which transfers them to other machines.

A thread of the sender copies the blocks under a lock that prevents their release, so the received content is valid.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import ray

from engine.connector.link import Sender, TransferError
from engine.trace.operations import TransferFault

READ_TIMEOUT = 30.0  # seconds, including the transfer from another machine
GROUP = "blocks"  # concurrency group of an actor, whose threads reply while its engine computes


class Shipment(NamedTuple):
    """Reply of a sender. It has no blocks if the transfer failed (`reason`)."""

    data: np.ndarray[Any, np.dtype[np.uint8]]  # concatenated contents of the blocks
    sizes: list[int]  # bytes of each block
    reason: TransferFault | None = None
    detail: str = ""


def ship(sender: Sender | None, transfer: str, wanted: Sequence[tuple[int, int]]) -> Shipment:
    """Return the wanted blocks, on the sender's side (None: it has ended). Renews the lease if no block is wanted."""
    try:
        if sender is None:
            raise TransferError("gone", "the instance has ended")
        contents = sender.read(transfer, wanted) if wanted else []
        if not wanted:
            sender.renew(transfer)
    except TransferError as error:
        return Shipment(np.empty(0, np.uint8), [], error.reason, error.detail)
    return Shipment(np.frombuffer(b"".join(contents), np.uint8), [len(content) for content in contents])


class RayLink:
    """Link to Ray actors with known handles."""

    name = "ray object store"

    def __init__(self, actors: Mapping[str, Any]) -> None:
        """`actors`: engine id -> actor with the methods of `ray_worker.InstanceActor`."""
        self._actors = actors

    def to(self, engine_id: str) -> Sender:
        actor = self._actors.get(engine_id)
        if actor is None:
            raise TransferError("gone", f"there is no instance {engine_id}")
        return RaySender(engine_id, actor)


class RaySender:
    """Sender in an actor. May be used from any thread."""

    def __init__(self, engine_id: str, actor: Any) -> None:
        self._engine_id, self._actor = engine_id, actor

    def read(self, transfer: str, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        reference = self._actor.ship.options(concurrency_group=GROUP).remote(transfer, list(wanted))
        try:
            shipment: Shipment = ray.get(reference, timeout=READ_TIMEOUT)
        except ray.exceptions.GetTimeoutError as error:
            raise TransferError("lost", f"instance {self._engine_id}: no reply within {READ_TIMEOUT:g} s") from error
        except ray.exceptions.RayActorError as error:
            raise TransferError("gone", f"instance {self._engine_id} has ended") from error
        except ray.exceptions.RayError as error:
            raise TransferError("lost", f"instance {self._engine_id}: {type(error).__name__}") from error
        if shipment.reason is not None:
            raise TransferError(shipment.reason, shipment.detail)
        view, ends = shipment.data, np.cumsum(shipment.sizes, dtype=int).tolist()
        return [view[end - size : end].tobytes() for end, size in zip(ends, shipment.sizes, strict=True)]

    def renew(self, transfer: str) -> None:
        self.read(transfer, [])

    def received(self, transfer: str, wanted: Sequence[tuple[int, int]], num_bytes: int) -> None:
        """Confirm without waiting for a reply, so that a stalled sender does not block the receiver."""
        with contextlib.suppress(ray.exceptions.RayError):
            self._actor.received.options(concurrency_group=GROUP).remote(transfer, list(wanted), num_bytes)
