"""Shared resources of simulated instances: links between nodes, and the stages of a pipeline."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import simpy

from engine.scheduling.transfers import TransferFacts
from engine.simulate.outcome import LinkSpeed
from engine.simulate.transfer import Pull
from engine.trace.records import InstanceRole


class Network:
    """Links between nodes. A node sends and receives one transfer at a time each; local transfers are instant."""

    def __init__(self, env: simpy.Environment, link: LinkSpeed | None, nodes: Sequence[int]) -> None:
        """`link`: speed, None: all transfers are instant. `nodes`: node of each instance."""
        self._env, self._link, self._nodes = env, link, nodes
        self._sends, self._receives = ({node: simpy.Resource(env) for node in nodes} for _ in range(2))
        self.moved_bytes = 0

    def move(self, receiver: int, pull: Pull) -> Generator[simpy.Event, object, TransferFacts]:
        """Transfer the pulled blocks to an instance."""
        env, link = self._env, self._link
        sender, destination = self._nodes[pull.offered.instance], self._nodes[receiver]
        began = env.now
        if link is not None and sender != destination:
            with self._sends[sender].request() as out, self._receives[destination].request() as into:
                yield out & into
                began = env.now
                yield env.timeout(link.latency + pull.num_bytes / link.bytes_per_second)
        else:
            yield env.timeout(0.0)
        self.moved_bytes += pull.num_bytes
        return TransferFacts(pull.num_bytes, link.name if link else "simulated", began, env.now)


def pipelines(
    env: simpy.Environment, roles: Sequence[InstanceRole], stages: Mapping[InstanceRole, int]
) -> list[list[simpy.Resource]]:
    """Return the resources of each instance's pipeline stages, shared within a pipeline; empty without a pipeline.

    `stages`: see `Simulation`.

    Raises:
        ValueError: the number of instances of a role is not a multiple of its stages.
    """
    found = list[list[simpy.Resource]]()
    for role in dict.fromkeys(roles):
        number, depth = roles.count(role), stages.get(role, 1)
        if number % depth:
            raise ValueError(f"{number} instances of {role} are not a multiple of the {depth} stages of a pipeline")
        for _ in range(number // depth):
            found += [[simpy.Resource(env) for _ in range(depth if depth > 1 else 0)]] * depth
    return found
