"""Placement for a demand: disaggregated or colocated prefill and decode (DistServe, arXiv 2401.09670 v3, section 4).

`instance_options.py` computes the goodput of an instance. Each side gets as many replicas as the demand needs, and the
placement with the fewest GPUs is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from engine.accounting.memory import stored_bytes_per_token
from engine.simulate.instance_options import Demand, Nodes, Option, options, placement_error
from engine.simulate.layers import Card
from engine.simulate.layout import Kind, Layout, fill_nodes, nodes_needed, side_by_side


class Placement(Struct, frozen=True, kw_only=True):
    """Instances that serve the demand."""

    options: list[Option]  # prefill and decode, or mixed
    gpus: int
    goodput_per_gpu: float  # demand / GPUs
    network_share: float  # used share of the busiest node's network bandwidth; 0: nothing leaves a node
    transfer_seconds: float  # per prompt; 0: nothing leaves a node
    layout: Layout
    is_side_by_side: bool = False  # whether each node has both prefill and decode


def disaggregated(cards: tuple[Card, Card], nodes: Nodes, demand: Demand) -> Placement:
    """Place prefill on the first kind of GPU and decode on the second, on separate nodes (section 4.1).

    Each side is optimized alone, as in the paper. If the network is too slow for that pair of configurations, the pair
    with the fewest GPUs for which it is fast enough is returned.

    Raises:
        PlacementError: no configuration of a side meets its objective, there are too few GPUs, or the network is too
            slow for every pair.
    """
    sides = [options(kind, card, nodes, demand) for kind, card in zip(_SIDES, cards, strict=True)]
    _lay_out([_fewest_gpus(side, kind) for kind, side in zip(_SIDES, sides, strict=True)], nodes)
    moved = stored_bytes_per_token(cards[0].model) * demand.prompt_tokens
    lowest = math.inf
    for pair in sorted(product(*sides), key=_size):
        if nodes_needed([one.instances for one in pair], nodes.gpus) > nodes.number:
            continue
        found = _lay_out(pair, nodes)
        network = moved * demand.rate * found.busiest / nodes.network
        if network < 1:
            return _placement(pair, demand, found, network, moved / nodes.network if network else 0.0)
        lowest = min(lowest, network)
    raise placement_error("network", rate=demand.rate, times=lowest)


def on_one_node(cards: tuple[Card, Card], nodes: Nodes, demand: Demand) -> Placement:
    """Place prefill and decode in the same nodes, so that no KV moves between nodes (section 4.2).

    Both have the same number of stages, and a node has the same stage of its prefill and decode instances.

    Raises:
        PlacementError: as `disaggregated`.
    """
    if cards[0].gpu.id != cards[1].gpu.id:
        raise placement_error("one_kind", first=cards[0].gpu.name, second=cards[1].gpu.name)
    best: tuple[tuple[int, float], list[Option], int] | None = None
    sides = [options(kind, card, nodes, demand) for kind, card in zip(_SIDES, cards, strict=True)]
    for kind, side in zip(_SIDES, sides, strict=True):
        _fewest_gpus(side, kind)
    for prefill in sides[0]:
        for decode in (one for one in sides[1] if one.stages == prefill.stages):
            for a, b in _replica_pairs(prefill.tensor_parallel, decode.tensor_parallel, nodes.gpus):
                groups = math.ceil(demand.rate / min(a * prefill.goodput, b * decode.goodput))
                total = groups * (a * prefill.gpus + b * decode.gpus)
                key = total, -min(a * prefill.goodput, b * decode.goodput)
                if groups * prefill.stages <= nodes.number and (best is None or key < best[0]):
                    best = key, [_replicated(prefill, a * groups), _replicated(decode, b * groups)], groups
    if best is None:
        raise placement_error("no_pair", nodes=nodes.number, gpus=nodes.gpus)
    found = side_by_side([one.instances for one in best[1]], best[2])
    return replace(_placement(best[1], demand, found), is_side_by_side=True)


def colocated(card: Card, nodes: Nodes, demand: Demand) -> Placement:
    """Place mixed instances with chunked prefill.

    Raises:
        PlacementError: as `disaggregated`.
    """
    best = _fewest_gpus(options("mixed", card, nodes, demand), "mixed")
    return _placement([best], demand, _lay_out([best], nodes))


_SIDES: tuple[Kind, Kind] = ("prefill", "decode")


def _replica_pairs(prefill: int, decode: int, gpus: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs of replica counts, at least 1 each, that fit into a node."""
    for a in range(1, gpus // prefill + 1):
        for b in range(1, (gpus - a * prefill) // decode + 1):
            yield a, b


def _fewest_gpus(found: list[Option], kind: Kind) -> Option:
    if not found:
        raise placement_error("no_instance", kind=kind)
    return min(found, key=lambda one: (one.all_gpus, -one.goodput_per_gpu))


def _size(pair: Sequence[Option]) -> tuple[float, ...]:
    """Return the sort key: number of GPUs, then descending goodput per GPU of each side."""
    return (sum(one.all_gpus for one in pair), *(-one.goodput_per_gpu for one in pair))


def _lay_out(found: Sequence[Option], nodes: Nodes) -> Layout:
    instances = [one.instances for one in found]
    needed = nodes_needed(instances, nodes.gpus)
    if needed > nodes.number:
        gpus = sum(one.all_gpus for one in found)
        raise placement_error("too_few_gpus", gpus=gpus, needed=needed, each=nodes.gpus, nodes=nodes.number)
    return fill_nodes(instances, nodes.gpus)


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
