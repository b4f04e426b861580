"""Clusters, put together: which instances there are, where their ids begin, what moves between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from engine.cache.block_tiers import BlockTiers
from engine.cluster.cluster import Cluster
from engine.cluster.instance import Instance, Role
from engine.cluster.local import LocalInstance
from engine.cluster.router import Router, RoutingPolicy
from engine.config import ConfigError, EngineConfig
from engine.connector.layout import layout_of
from engine.connector.link import Link, LocalLink, Sender
from engine.connector.transfer import LEASE, FailurePolicy, TransferConnector
from engine.header import header_of
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.place import Place
from engine.resolve import resolve_for
from engine.trace.limits import MAX_BLOCKS, MAX_GROUPS


class Shape(NamedTuple):
    """How many instances of each role."""

    prefill: int = 0
    decode: int = 0
    mixed: int = 0

    @property
    def roles(self) -> list[Role]:
        """In the order in which the log has them.

        Raises:
            ConfigError: requests could not be served.
        """
        if min(self) < 0 or not sum(self) or (self.prefill and not self.decode + self.mixed):
            raise ConfigError("a cluster needs an instance that decodes: --decode, or none of --prefill")
        if self.decode and not self.prefill + self.mixed:
            raise ConfigError("a cluster needs an instance that computes prompts: --prefill, or none of --decode")
        counts: list[tuple[Role, int]] = [("prefill", self.prefill), ("decode", self.decode), ("mixed", self.mixed)]
        return [role for role, count in counts for _ in range(count)]


class Seat(NamedTuple):
    """What one instance is to be, before there is one."""

    name: str
    role: Role
    place: Place


def seats_of(shape: Shape, model: LoadedModel, config: EngineConfig, began: float) -> list[Seat]:
    """Names, and ids that no two have in common.

    Raises:
        ConfigError: settings that cannot work, or more instances than one log holds.
    """
    resolved, roles = resolve_for(config, model.facts), shape.roles
    num_blocks = sum(group.num_blocks for group in resolved.groups)
    swap_blocks = resolved.swap_space * len(resolved.groups)
    if len(roles) * len(resolved.groups) > MAX_GROUPS or len(roles) * num_blocks > MAX_BLOCKS:
        most = min(MAX_GROUPS // len(resolved.groups), MAX_BLOCKS // num_blocks)
        raise ConfigError(
            f"{len(roles)} instances with {num_blocks} blocks each are too many for one log: at most {most}"
        )
    numbers: dict[Role, int] = {}
    seats = list[Seat]()
    for index, role in enumerate(roles):
        numbers[role] = numbers.get(role, -1) + 1
        place = Place(index * num_blocks, index * swap_blocks, index, len(roles), began)
        seats.append(Seat(f"{role}-{numbers[role]}", role, place))
    return seats


def local_cluster(
    model: LoadedModel,
    config: EngineConfig,
    shape: Shape,
    *,
    routing: RoutingPolicy = "round_robin",
    link: Callable[[dict[str, Sender]], Link] = LocalLink,
    log_path: Path | None = None,
    capture: CaptureRequest | None = None,
    lease: float = LEASE,
    policy: FailurePolicy = "recompute",
    clock: Callable[[], float] = time.monotonic,
) -> Cluster:
    """Every instance an engine of the caller's thread: the same inputs give the same log, apart from clocks.

    Raises:
        ConfigError: settings that cannot work with this model.
    """
    began = time.perf_counter()
    seats = seats_of(shape, model, config, began)
    senders: dict[str, Sender] = {}

    def make(index: int, first_seq_id: int) -> Instance:
        seat = seats[index]
        place = seat.place._replace(first_seq_id=first_seq_id)
        resolved = resolve_for(config, model.facts)

        def layout(kv_caches: Sequence[BlockTiers]) -> bytes:
            return layout_of(model, resolved.config, resolved.groups, [cache.bytes_per_block for cache in kv_caches])

        connector = TransferConnector(seat.name, link(senders), layout, lease=lease, policy=policy, clock=clock)
        senders[seat.name] = connector
        gone = lambda: senders.pop(seat.name, None)  # noqa: E731
        return LocalInstance(seat.name, seat.role, model, config, connector, place, failed=gone)

    instances = [make(index, seat.place.first_seq_id) for index, seat in enumerate(seats)]
    first = instances[0]
    return Cluster(
        model,
        header_of(model, first.config, first.block_groups),
        instances,
        Router(routing, instances),
        start_anew=make,
        log_path=log_path,
        capture=capture,
        began=began,
    )
