"""Assignment of a placement's instances to nodes, and the share of keys and values that leaves a node.

A tensor-parallel group is within one node, and a node has GPUs of one kind. Nodes are filled in order, the widest
groups first. No GPU is left over if the widths divide each other and the node, as all measured widths do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

Kind = Literal["prefill", "decode", "mixed"]


class Instances(NamedTuple):
    """Identical replicas, each of `stages` × `tensor_parallel` GPUs."""

    kind: Kind
    gpu: str
    tensor_parallel: int
    stages: int
    replicas: int


class Layout(Struct, frozen=True):
    """Assignment of instances to nodes.

    `nodes`: for each used node, the kind of each used GPU. `places`: for each kind, the node of each stage, replica by
    replica.
    """

    nodes: list[list[Kind]]
    places: dict[Kind, list[int]]

    @property
    def busiest(self) -> float:
        """Share of all keys and values that the busiest node sends or receives; 0 if none leave a node.

        Each decode GPU receives an equal part from each prefill GPU. So a node with a share p of the prefill GPUs and a
        share d of the decode GPUs sends p · (1 − d) and receives d · (1 − p).
        """
        counts = [(node.count("prefill"), node.count("decode")) for node in self.nodes]
        first, after = (sum(count[side] for count in counts) for side in (0, 1))
        if not first or not after:
            return 0.0
        parts = [(p / first, d / after) for p, d in counts]
        return max(max(p * (1 - d), d * (1 - p)) for p, d in parts)


def nodes_needed(instances: Sequence[Instances], gpus_of_node: int) -> int:
    """Return the number of nodes needed if each has one kind of GPU."""
    by_gpu: dict[str, int] = {}
    for one in instances:
        by_gpu[one.gpu] = by_gpu.get(one.gpu, 0) + one.replicas * one.stages * one.tensor_parallel
    return sum(-(-gpus // gpus_of_node) for gpus in by_gpu.values())


def fill_nodes(instances: Sequence[Instances], gpus_of_node: int) -> Layout:
    """Fill the nodes in order. A tensor-parallel group that fits into no used node starts a new one."""
    nodes: list[list[Kind]] = []
    gpu_of: list[str] = []
    places: dict[Kind, list[int]] = {one.kind: [] for one in instances}
    for one in sorted(instances, key=lambda one: -one.tensor_parallel):
        for _ in range(one.replicas * one.stages):
            fits = (
                at
                for at, node in enumerate(nodes)
                if gpu_of[at] == one.gpu and gpus_of_node - len(node) >= one.tensor_parallel
            )
            at = next(fits, len(nodes))
            if at == len(nodes):
                nodes.append([])
                gpu_of.append(one.gpu)
            nodes[at] += [one.kind] * one.tensor_parallel
            places[one.kind].append(at)
    return Layout(nodes, places)


def side_by_side(instances: Sequence[Instances], groups: int) -> Layout:
    """Return the layout in which each group of replicas has one node per stage, shared by prefill and decode."""
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
