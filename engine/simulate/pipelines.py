"""Pipeline stages that the steps of instances pass in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import simpy

from engine.trace.records import InstanceRole


def pipelines(
    env: simpy.Environment, roles: Sequence[InstanceRole], stages: Mapping[InstanceRole, int]
) -> list[list[simpy.Resource]]:
    """Return the pipeline resources of each instance, shared within a pipeline; empty for an instance without one.

    `stages`: as `Simulation` takes them.

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
