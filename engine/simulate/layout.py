"""In which nodes the instances of a placement lie, and what of their keys and values leaves a node.

GPUs that split a layer are in one node, and a node has GPUs of one kind. Nodes are filled one after another, the wider
splits first: where the widths divide each other and a node, as those that were measured do, no GPU is left between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

Kind = Literal["prefill", "decode", "mixed"]


class Instances(NamedTuple):
    """Replicas that are alike, each of `stages` × `tensor_parallel` GPUs."""

    kind: Kind
    gpu: str
    tensor_parallel: int
    stages: int
    replicas: int


class Layout(Struct, frozen=True):
    """`nodes`: of each node that is used, what each of its used GPUs does. `places`: of each kind, in which node the
    stages of each replica lie, replica by replica.
    """

    nodes: list[list[Kind]]
    places: dict[Kind, list[int]]

    @property
    def busiest(self) -> float:
        """Share of all keys and values that the busiest node sends or receives; 0: none leave a node.

        Each GPU that decodes takes an equal part of what each GPU that prefills has: a node with the part p of those
        that prefill and d of those that decode sends p · (1 − d) and takes in d · (1 − p).
        """
        counts = [(node.count("prefill"), node.count("decode")) for node in self.nodes]
        first, after = (sum(count[side] for count in counts) for side in (0, 1))
        if not first or not after:
            return 0.0
        parts = [(p / first, d / after) for p, d in counts]
        return max(max(p * (1 - d), d * (1 - p)) for p, d in parts)


def nodes_needed(instances: Sequence[Instances], gpus_of_node: int) -> int:
    """Nodes that are used, each kind of GPU in its own."""
    by_gpu: dict[str, int] = {}
    for one in instances:
        by_gpu[one.gpu] = by_gpu.get(one.gpu, 0) + one.replicas * one.stages * one.tensor_parallel
    return sum(-(-gpus // gpus_of_node) for gpus in by_gpu.values())


def filled(instances: Sequence[Instances], gpus_of_node: int) -> Layout:
    """Fill one node after another; a split that does not fit into the rest of any node starts a new one."""
    nodes: list[list[Kind]] = []
    whose: list[str] = []
    places: dict[Kind, list[int]] = {one.kind: [] for one in instances}
    for one in sorted(instances, key=lambda one: -one.tensor_parallel):
        for _ in range(one.replicas * one.stages):
            fits = (
                at
                for at, node in enumerate(nodes)
                if whose[at] == one.gpu and gpus_of_node - len(node) >= one.tensor_parallel
            )
            at = next(fits, len(nodes))
            if at == len(nodes):
                nodes.append([])
                whose.append(one.gpu)
            nodes[at] += [one.kind] * one.tensor_parallel
            places[one.kind].append(at)
    return Layout(nodes, places)


def side_by_side(instances: Sequence[Instances], groups: int) -> Layout:
    """Return the layout in which each group has as many nodes as stages: a node has the same stage of all its
    replicas.
    """
    stages = instances[0].stages
    nodes: list[list[Kind]] = [[] for _ in range(groups * stages)]
    places: dict[Kind, list[int]] = {one.kind: [] for one in instances}
    for one in instances:
        each = one.replicas // groups
        for replica in range(one.replicas):
            for stage in range(stages):
                at = replica // each * stages + stage
                nodes[at] += [one.kind] * one.tensor_parallel
                places[one.kind].append(at)
    return Layout(nodes, places)
