"""Placement for a demand: prefill and decode apart, or together (DistServe, arXiv 2401.09670 v3, 4).

`instance_options.py` has the goodput of an instance. Each side has as many replicas as the demand needs; the placement
with the fewest GPUs is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from engine.accounting.memory import stored_bytes_per_token
from engine.simulate.instance_options import Demand, Nodes, Option, options, refused
from engine.simulate.layers import Card
from engine.simulate.layout import Kind, Layout, filled, nodes_needed, side_by_side


class Placement(Struct, frozen=True, kw_only=True):
    """Instances that serve the demand."""

    options: list[Option]  # prefill and decode, or mixed
    gpus: int
    goodput_per_gpu: float  # demand / GPUs
    network_share: float  # share of all keys and values that the busiest node sends or receives; 0: none
    transfer_seconds: float  # of one prompt's keys and values over the network; 0: none leave a node
    layout: Layout
    is_side_by_side: bool = False  # each group of nodes has both


def apart(cards: tuple[Card, Card], nodes: Nodes, demand: Demand) -> Placement:
    """Return prefill on the first kind of GPU and decode on the second, for high node-affinity (4.1).

    Each side is optimized alone, as in the paper. If the network cannot carry the keys and values of that pair, the
    result is the pair with the fewest GPUs for which it can.

    Raises:
        PlacementError: a side misses its objective in every configuration, there are too few GPUs, or the network is
            too slow for every pair.
    """
    sides = [options(kind, card, nodes, demand) for kind, card in zip(_SIDES, cards, strict=True)]
    _laid_out([_fewest(side, kind) for kind, side in zip(_SIDES, sides, strict=True)], nodes)
    moved = stored_bytes_per_token(cards[0].model) * demand.prompt_tokens
    least = math.inf
    for pair in sorted(product(*sides), key=_size):
        if nodes_needed([one.instances for one in pair], nodes.gpus) > nodes.number:
            continue
        found = _laid_out(pair, nodes)
        network = moved * demand.rate * found.busiest / nodes.network
        if network < 1:
            return _placement(pair, demand, found, network, moved / nodes.network if network else 0.0)
        least = min(least, network)
    raise refused("network", rate=demand.rate, times=least)


def on_one_node(cards: tuple[Card, Card], nodes: Nodes, demand: Demand) -> Placement:
    """Return prefill and decode stages side by side in each node, so that no KV moves between nodes (4.2).

    Both have the same number of stages. A node has the same stage of its prefill and decode instances.

    Raises:
        PlacementError: as `apart`.
    """
    if cards[0].gpu.id != cards[1].gpu.id:
        raise refused("one_kind", first=cards[0].gpu.name, second=cards[1].gpu.name)
    best: tuple[tuple[int, float], list[Option], int] | None = None
    sides = [options(kind, card, nodes, demand) for kind, card in zip(_SIDES, cards, strict=True)]
    for kind, side in zip(_SIDES, sides, strict=True):
        _fewest(side, kind)
    for first in sides[0]:
        for after in (one for one in sides[1] if one.stages == first.stages):
            for a, b in _beside(first.tensor_parallel, after.tensor_parallel, nodes.gpus):
                groups = math.ceil(demand.rate / min(a * first.goodput, b * after.goodput))
                total = groups * (a * first.gpus + b * after.gpus)
                given = total, -min(a * first.goodput, b * after.goodput)
                if groups * first.stages <= nodes.number and (best is None or given < best[0]):
                    best = given, [_replicated(first, a * groups), _replicated(after, b * groups)], groups
    if best is None:
        raise refused("no_pair", nodes=nodes.number, gpus=nodes.gpus)
    found = side_by_side([one.instances for one in best[1]], best[2])
    return replace(_placement(best[1], demand, found), is_side_by_side=True)


def together(card: Card, nodes: Nodes, demand: Demand) -> Placement:
    """Return mixed instances, with chunked prefill.

    Raises:
        PlacementError: as `apart`.
    """
    best = _fewest(options("mixed", card, nodes, demand), "mixed")
    return _placement([best], demand, _laid_out([best], nodes))


_SIDES: tuple[Kind, Kind] = ("prefill", "decode")


def _beside(first: int, after: int, gpus: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs of replica counts that fit into a node, at least one of each."""
    for a in range(1, gpus // first + 1):
        for b in range(1, (gpus - a * first) // after + 1):
            yield a, b


def _fewest(found: list[Option], kind: Kind) -> Option:
    if not found:
        raise refused("no_instance", kind=kind)
    return min(found, key=lambda one: (one.all_gpus, -one.goodput_per_gpu))


def _size(pair: Sequence[Option]) -> tuple[float, ...]:
    """Return the sort key: fewest GPUs first, then the goodput per GPU of each side."""
    return (sum(one.all_gpus for one in pair), *(-one.goodput_per_gpu for one in pair))


def _laid_out(found: Sequence[Option], nodes: Nodes) -> Layout:
    instances = [one.instances for one in found]
    needed = nodes_needed(instances, nodes.gpus)
    if needed > nodes.number:
        gpus = sum(one.all_gpus for one in found)
        raise refused("too_few_gpus", gpus=gpus, needed=needed, each=nodes.gpus, nodes=nodes.number)
    return filled(instances, nodes.gpus)


def _replicated(option: Option, replicas: int) -> Option:
    return replace(option, replicas=replicas)


def _placement(
    found: Sequence[Option], demand: Demand, layout: Layout, network: float = 0.0, transfer: float = 0.0
) -> Placement:
    gpus = sum(option.all_gpus for option in found)
    return Placement(
        options=list(found),
        gpus=gpus,
        goodput_per_gpu=demand.rate / gpus,
        network_share=network,
        transfer_seconds=transfer,
        layout=layout,
    )
