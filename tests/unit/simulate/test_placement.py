"""Placements with the fewest GPUs within memory, links and objectives, confirmed by simulation."""

from itertools import product

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from engine.simulate.instance_options import Demand, Nodes, PlacementError, options
from engine.simulate.layers import Card, card_of
from engine.simulate.layout import fill_nodes
from engine.simulate.placed import simulate_placement
from engine.simulate.placement import Placement, colocated, disaggregated, on_one_node
from engine.simulate.placement_numbers import placement_numbers

A100, H100 = "a100-80gb", "h100-80gb"
SMALL = Nodes(number=2, gpus=4, network=25e9)
DEMANDS = [
    ("llama-2-7b", Demand(rate=30, prompt_tokens=512, output_tokens=128, ttft=0.25, tpot=0.1)),
    ("llama-2-7b", Demand(rate=60, prompt_tokens=256, output_tokens=64, ttft=0.2, tpot=0.02)),
    ("llama-3.1-8b", Demand(rate=5, prompt_tokens=2048, output_tokens=512, ttft=0.5, tpot=0.03)),
    ("llama-2-70b", Demand(rate=1, prompt_tokens=1024, output_tokens=256, ttft=1.0, tpot=0.1)),
]


def on(model: str, first: str = A100, after: str = A100) -> tuple[Card, Card]:
    """Return the model's times on the GPUs for prefill and for decode."""
    return card_of(model, first), card_of(model, after)


@pytest.mark.parametrize(("model", "demand"), DEMANDS)
def test_the_search_finds_the_fewest_gpus(model: str, demand: Demand) -> None:
    """Every pair of instances and every number of both is tried."""
    found = disaggregated(on(model), SMALL, demand)
    most = SMALL.number * SMALL.gpus
    sides = [options(kind, card_of(model, A100), SMALL, demand) for kind in ("prefill", "decode")]
    serve = [
        first.gpus * a + after.gpus * b
        for first, after in product(*sides)
        for a, b in product(range(1, most + 1), repeat=2)
        if min(first.goodput * a, after.goodput * b) >= demand.rate
    ]
    assert found.gpus == min(serve) and found.goodput_per_gpu == demand.rate / found.gpus
    for option in found.options:
        assert option.goodput * option.replicas >= demand.rate > option.goodput * (option.replicas - 1)
    near = on_one_node(on(model), SMALL, demand)
    assert near.gpus >= found.gpus and near.network_share == 0
    first, after = near.options
    assert first.stages == after.stages and near.gpus <= most
    mixed = colocated(card_of(model, A100), SMALL, demand)
    assert mixed.gpus == min(one.all_gpus for one in options("mixed", card_of(model, A100), SMALL, demand))


def test_placement_on_one_node_finds_the_fewest_gpus() -> None:
    """All placements of section 4.2 are tried: equal stages, instances per node, and groups of nodes."""
    model, demand = DEMANDS[0]
    found = on_one_node(on(model), SMALL, demand)
    best = min(
        groups * first.stages * (a * first.tensor_parallel + b * after.tensor_parallel)
        for first, after in product(
            *(options(kind, card_of(model, A100), SMALL, demand) for kind in ("prefill", "decode"))
        )
        if first.stages == after.stages
        for a, b, groups in product(range(1, 5), range(1, 5), range(1, 3))
        if a * first.tensor_parallel + b * after.tensor_parallel <= SMALL.gpus
        and groups * first.stages <= SMALL.number
        and groups * min(a * first.goodput, b * after.goodput) >= demand.rate
    )
    assert found.gpus == best


def test_weights_must_fit_and_leave_room_for_requests() -> None:
    """The 138 GB of Llama 2 70B in float16 exceed one GPU of 80 GB. Two hold it and some requests of 1,280 tokens."""
    model = "llama-2-70b"
    capacity = card_of(model, A100).room_tokens(2)
    assert card_of(model, A100).room_tokens() == 0 < capacity // 1280 < 40
    demand = DEMANDS[-1][1]
    found = options("decode", card_of(model, A100), SMALL, demand)
    assert min(one.gpus for one in found) == 2
    assert [one.batch for one in found if (one.tensor_parallel, one.stages) == (2, 1)] == [capacity // 1280]


def test_a_faster_prefill_gpu_halves_the_number_of_gpus() -> None:
    """An H100 computes three times as fast as an A100, so fewer GPUs suffice if prefill dominates."""
    model, demand = "llama-2-70b", Demand(rate=10, prompt_tokens=1024, output_tokens=256, ttft=1.0, tpot=0.1)
    nodes = Nodes(number=4, gpus=8, network=25e9)
    same, mixed = (disaggregated(on(model, card), nodes, demand) for card in (A100, H100))
    assert (same.gpus, mixed.gpus) == (14, 8)
    assert [option.gpu for option in mixed.options] == ["h100-80gb", "a100-80gb"]
    assert same.options[1] == mixed.options[1]  # decode is unchanged
    with pytest.raises(PlacementError, match="a node has GPUs of one kind"):
        on_one_node(on(model, H100), nodes, demand)


def test_gpus_of_two_kinds_need_separate_nodes() -> None:
    """Two kinds of GPU need two nodes of any size. Two GPUs of one kind share a node without network traffic."""
    model, demand = "llama-2-7b", Demand(rate=5, prompt_tokens=256, output_tokens=64, ttft=0.2, tpot=0.05)
    one = Nodes(number=1, gpus=8, network=25e9)
    with pytest.raises(PlacementError, match="are 2 nodes of 8 GPUs of one kind, but there are 1"):
        disaggregated(on(model, H100), one, demand)
    assert disaggregated(on(model, H100), replace(one, number=2), demand).layout.nodes == [["prefill"], ["decode"]]
    same = disaggregated(on(model), one, demand)
    assert same.layout.nodes == [["prefill", "decode"]]
    assert (same.network_share, same.transfer_seconds) == (0, 0)


def test_rare_requests_and_slow_networks_favour_a_single_instance() -> None:
    """A single instance suffices for rare requests. A slow network limits the rate of two."""
    model, nodes = "llama-3.1-8b", Nodes(number=2, gpus=4, network=25e9)
    seldom = Demand(rate=0.5, prompt_tokens=512, output_tokens=128, ttft=0.5, tpot=0.05)
    assert (colocated(card_of(model, A100), nodes, seldom).gpus, disaggregated(on(model), nodes, seldom).gpus) == (1, 2)
    often = replace(seldom, rate=20)
    moved = 131_072 * 512
    small = replace(nodes, gpus=1)
    found = disaggregated(on(model), small, often)
    assert found.layout.nodes == [["prefill"], ["decode"]]
    assert found.transfer_seconds == pytest.approx(moved / 25e9)
    assert found.network_share == pytest.approx(20 * moved / 25e9)
    with pytest.raises(PlacementError, match=r"20 prompts a second are 13\.4 times what the busiest node can send"):
        disaggregated(on(model), replace(small, network=1e8), often)


def test_the_network_of_a_node_bounds_its_incoming_transfers() -> None:
    """The 60 prompts of 2,000 tokens of 800 KiB are 98 GB/s for a network of 100 GB/s per node. The share that is
    prefilled in the node of the decode instance is not transferred.
    """
    model = "opt-13b"
    demand = Demand(rate=60, prompt_tokens=2000, output_tokens=2, ttft=0.5, tpot=0.1)
    nodes = Nodes(number=16, gpus=8, network=100e9)
    found = disaggregated(on(model), nodes, demand)
    *others, last = found.layout.nodes
    assert len(others) == 2 and last.count("decode") == found.options[1].all_gpus == 1
    prefill_share = last.count("prefill") / found.options[0].all_gpus
    assert found.network_share == pytest.approx((1 - prefill_share) * 60 * 2000 * 819_200 / 100e9)


@pytest.mark.parametrize(("model", "demand"), DEMANDS)
def test_formulas_give_the_numbers_of_the_placement(model: str, demand: Demand) -> None:
    """Capacities, counts and transfers follow from the formulas, for every way of placement."""
    cards, spread = on(model), Nodes(number=4, gpus=2, network=25e9)
    for found in (
        disaggregated(cards, spread, demand),
        on_one_node(cards, SMALL, demand),
        colocated(cards[0], SMALL, demand),
    ):
        numbers = {one.id: one.value for one in placement_numbers(found, cards[0].model, spread, demand)}
        assert numbers["all_gpus"] == found.gpus and numbers["rate_per_gpu"] == found.goodput_per_gpu
        for option in found.options:
            assert numbers[f"replicas_{option.kind}"] == option.replicas
            if option.kind == "decode":
                assert numbers["goodput_of_decode"] == pytest.approx(option.goodput)
            elif option.kind == "prefill":
                assert numbers["wait_allowed"] == demand.ttft - option.seconds and 0 < numbers["prefill_busy"] < 1
            else:
                chunks = -(-demand.prompt_tokens // option.chunk)
                assert numbers["chunked_seconds"] == pytest.approx(chunks * option.seconds)
                assert numbers["goodput_of_decode"] >= option.goodput
        moved = numbers.get("network_used", 0.0), numbers.get("moved_seconds", 0.0)
        assert moved == pytest.approx((found.network_share, found.transfer_seconds))


@pytest.mark.parametrize("network", [100e9, 30e9, 1e9])
def test_a_slow_network_changes_the_placement(network: float) -> None:
    """The result has the fewest GPUs of all pairs that fit into the nodes and the network. If none fits, the smallest
    transfer is reported.
    """
    model = "opt-13b"
    demand = Demand(rate=60, prompt_tokens=2000, output_tokens=2, ttft=0.5, tpot=0.1)
    nodes = Nodes(number=16, gpus=8, network=network)
    fits, shares = [], []
    for pair in product(*(options(kind, card_of(model, A100), nodes, demand) for kind in ("prefill", "decode"))):
        laid = fill_nodes([one.instances for one in pair], nodes.gpus)
        if len(laid.nodes) <= nodes.number:
            shares.append(60 * 2000 * 819_200 * laid.busiest / network)
            fits += [sum(one.all_gpus for one in pair)] if shares[-1] < 1 else []
    if fits:
        found = disaggregated(on(model), nodes, demand)
        assert found.gpus == min(fits) and found.network_share < 1 and (network == 100e9) == (found.gpus == 21)
    else:
        with pytest.raises(PlacementError, match=f"are {min(shares):.3g} times what the busiest node can send"):
            disaggregated(on(model), nodes, demand)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"ttft": 0.001}, "no instance of the measured sizes meets the objective of prefill"),
        ({"tpot": 0.0001}, "no instance of the measured sizes meets the objective of decode"),
        ({"rate": 5000.0}, "nodes of 4 GPUs of one kind, but there are 2"),
    ],
)
def test_unservable_demands_are_refused(changed: dict[str, float], error: str) -> None:
    model, demand = DEMANDS[0]
    with pytest.raises(PlacementError, match=error):
        disaggregated(on(model), SMALL, replace(demand, **changed))
    for wrong in ({"output_tokens": 1}, {"rate": 0.0}, {"share": 1.0}):
        with pytest.raises(ValueError, match=r"demand needs|objectives must"):
            disaggregated(on(model), SMALL, replace(demand, **wrong))


def test_the_formulas_predict_the_share_of_requests_in_time() -> None:
    """The simulated share, at the rate for 90 %, within the objective over 6 seeds agrees with 90 % (95 % interval)."""
    model = "llama-2-7b"
    demand = Demand(rate=1, prompt_tokens=256, output_tokens=4, ttft=0.06, tpot=0.1)
    first = next(one for one in options("prefill", card_of(model, A100), SMALL, demand) if one.gpus == 1)
    after = next(one for one in options("decode", card_of(model, A100), SMALL, demand) if one.gpus == 1)
    at = replace(demand, rate=first.goodput)
    layout = fill_nodes([first.instances, after.instances], 1)
    placement = Placement(
        options=[first, after], gpus=2, goodput_per_gpu=0, network_share=0.1, transfer_seconds=0, layout=layout
    )
    nodes = replace(SMALL, network=300e9)
    shares = [
        simulate_placement(on(model), placement, at, nodes, num_requests=300, seed=seed).within_ttft
        for seed in range(6)
    ]
    low, high = stats.t.interval(0.95, len(shares) - 1, np.mean(shares), stats.sem(shares))
    assert low <= 0.9 <= high
    less = replace(demand, rate=first.goodput / 2)
    assert simulate_placement(on(model), placement, less, nodes, num_requests=200).within_both > 0.99


def test_a_trial_decodes_large_batches_of_short_prompts() -> None:
    """200 requests per second of 16 tokens decode about 170 outputs of 64 tokens at once, in steps of 13 ms."""
    model, demand = "llama-2-7b", Demand(rate=200, prompt_tokens=16, output_tokens=64, ttft=0.3, tpot=0.05)
    nodes = Nodes(number=1, gpus=8, network=25e9)
    found = disaggregated(on(model), nodes, demand)
    assert found.options[1].batch > 170
    result = simulate_placement(on(model), found, demand, nodes, num_requests=400)
    assert result.within_tpot == 1 and result.streamed_ttft > 0.99


def test_a_trial_simulates_stages() -> None:
    """The placement of lesson 12 prefills in five stages of two GPUs and decodes on four."""
    model, demand = "llama-2-70b", Demand(rate=10, prompt_tokens=1024, output_tokens=16, ttft=1.0, tpot=0.1)
    nodes = Nodes(number=4, gpus=8, network=25e9)
    found = disaggregated(on(model), nodes, demand)
    assert found.options[0].stages > 1
    assert simulate_placement(on(model), found, demand, nodes, num_requests=200).within_ttft >= 0.9


def test_a_trial_side_by_side_sends_nothing_over_the_network() -> None:
    """Each stage transfers its keys and values within a node, so a network of 1 kB/s does not matter."""
    model, demand = "llama-2-70b", Demand(rate=5, prompt_tokens=512, output_tokens=8, ttft=1.0, tpot=0.1)
    slow = Nodes(number=4, gpus=8, network=1e3)
    found = on_one_node(on(model), slow, demand)
    assert len(found.layout.nodes) == found.options[0].stages > 1
    assert simulate_placement(on(model), found, demand, slow, num_requests=60).streamed_ttft > 0.9
