"""Construction of a cluster: its instances, their id ranges, and the links between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from engine.cache.block_tiers import BlockTiers
from engine.cluster.cluster import Cluster
from engine.cluster.instance import Instance, Role
from engine.cluster.local import LocalInstance
from engine.cluster.router import Router
from engine.config import ConfigError, EngineConfig
from engine.connector.layout import layout_of
from engine.connector.link import Link, LocalLink, Sender, ThrottledLink
from engine.connector.transfer import LEASE, TransferConnector
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.options.refusal import sentence
from engine.setup.id_namespace import IdNamespace
from engine.setup.resolve import resolve_for
from engine.trace.limits import MAX_BLOCKS, MAX_GROUPS


class InstancePlan(NamedTuple):
    """Name, role and id ranges of an instance that is to be built."""

    name: str
    role: Role
    place: IdNamespace


def plan_instances(model: LoadedModel, config: EngineConfig, began: float) -> list[InstancePlan]:
    """Return the name, role and disjoint id ranges of each instance.

    Raises:
        ConfigError: the settings are invalid for the model, or one log cannot hold that many instances.
    """
    resolved, roles = resolve_for(config, model.facts), config.roles
    num_blocks = sum(group.num_blocks for group in resolved.groups)
    swap_blocks = resolved.swap_space * len(resolved.groups)
    if len(roles) * len(resolved.groups) > MAX_GROUPS or len(roles) * num_blocks > MAX_BLOCKS:
        most = min(MAX_GROUPS // len(resolved.groups), MAX_BLOCKS // num_blocks)
        raise ConfigError(sentence("instances.log", n=len(roles), blocks=num_blocks, most=most))
    numbers: dict[Role, int] = {}
    plans = list[InstancePlan]()
    for index, role in enumerate(roles):
        numbers[role] = numbers.get(role, -1) + 1
        place = IdNamespace(index * num_blocks, index * swap_blocks, index, len(roles), began)
        plans.append(InstancePlan(f"{role}-{numbers[role]}", role, place))
    return plans


def local_cluster(
    model: LoadedModel,
    config: EngineConfig,
    *,
    link: Callable[[Mapping[str, Sender]], Link] = LocalLink,
    log_path: Path | None = None,
    capture: CaptureRequest | None = None,
    lease: float = LEASE,
    clock: Callable[[], float] = time.perf_counter,
    make_connector: Callable[..., TransferConnector] = TransferConnector,
    make_instance: type[LocalInstance] = LocalInstance,
) -> Cluster:
    """Return a cluster whose instances run in the caller's thread. Equal inputs give equal logs, except for times.

    `make_connector`: replaced to inject faults (`engine.lab.faults`); `make_instance`: replaced by tests.

    Raises:
        ConfigError: the settings are invalid for the model.
    """
    began = time.perf_counter()
    plans, resolved, own = (
        plan_instances(model, config, began),
        resolve_for(config, model.facts),
        config.instance_config,
    )
    senders: dict[str, Sender] = {}

    def layout(kv_caches: Sequence[BlockTiers]) -> bytes:
        return layout_of(
            model, resolved.config.instance_config, resolved.groups, [one.bytes_per_block for one in kv_caches]
        )

    def make(index: int, first_seq_id: int) -> Instance:
        name, role, place = plans[index]
        connector = make_connector(
            name,
            throttled(link(senders), config),
            layout,
            # one thread per instance, so that a wait for a slow link delays no other instance
            pulls=None if config.link_mb_per_second is None else ThreadPoolExecutor(1, f"pull-{name}"),
            lease=lease,
            policy=config.kv_load_failure_policy,
            clock=clock,
        )
        senders[name] = connector
        place = place._replace(first_seq_id=first_seq_id)
        return make_instance(name, role, model, own, connector, place, killed=lambda: senders.pop(name, None))

    instances = [make(index, plan.place.first_seq_id) for index, plan in enumerate(plans)]
    return Cluster(
        model,
        resolved.config,
        instances,
        Router(config.routing_policy, instances, ttft_slo=config.ttft_slo),
        start_instance=make,
        log_path=log_path,
        capture=capture,
        began=began,
    )


def throttled(link: Link, config: EngineConfig) -> Link:
    rate = config.link_mb_per_second
    return link if rate is None else ThrottledLink(link, rate * 1e6)
