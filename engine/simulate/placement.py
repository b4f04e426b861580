"""How many GPUs serve a demand, and how: prefill and decode apart, or together (DistServe, arXiv 2401.09670 v3, 4).

What one instance serves is `instance_options.py`'s. Each side has as many replicas as the demand takes, and of all
choices the one with the fewest GPUs is taken.
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

    options: list[Option]  # prefill and decode, or one that is mixed
    gpus: int
    goodput_per_gpu: float  # the demand over all GPUs
    network_share: (
        float  # of the busiest node's sent or received bytes: keys and values that move between nodes; 0: none
    )
    transfer_seconds: float  # of one prompt's keys and values over the network; 0: none leave a node
    layout: Layout
    is_side_by_side: bool = False  # groups of nodes that each have both


def apart(cards: tuple[Card, Card], nodes: Nodes, demand: Demand) -> Placement:
    """Prefill on the first kind of GPU, decode on the second, for nodes that are close (4.1).

    Each side is as it is best alone. Where that is more than the network carries, as the paper's search does not ask,
    it is the pair with the fewest GPUs of those whose keys and values it carries, each with the replicas that the
    demand takes.

    Raises:
        PlacementError: one side misses its objective whatever is tried, there are too few GPUs, or the network is too
            slow for every pair.
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
    """Stages of prefill and decode side by side in each node, so that nothing moves between nodes (4.2).

    Both have as many stages. A node holds the same stage of a prefill and of b decode instances.

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
    """Instances that do both, with chunked prefill.

    Raises:
        PlacementError: as `apart`.
    """
    best = _fewest(options("mixed", card, nodes, demand), "mixed")
    return _placement([best], demand, _laid_out([best], nodes))


_SIDES: tuple[Kind, Kind] = ("prefill", "decode")


def _beside(first: int, after: int, gpus: int) -> Iterator[tuple[int, int]]:
    """Yield how many of each a node can hold, at least one of both."""
    for a in range(1, gpus // first + 1):
        for b in range(1, (gpus - a * first) // after + 1):
            yield a, b


def _fewest(found: list[Option], kind: Kind) -> Option:
    if not found:
        raise refused("no_instance", kind=kind)
    return min(found, key=lambda one: (one.all_gpus, -one.goodput_per_gpu))


def _size(pair: Sequence[Option]) -> tuple[float, ...]:
    """Return the fewest GPUs first; of as many, what each side serves with one of them."""
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
