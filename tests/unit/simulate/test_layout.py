"""Placement of instances in nodes, and the share of keys and values that crosses nodes."""

import pytest

from engine.simulate.layout import Instances, Kind, Layout, fill_nodes, nodes_needed, side_by_side


def instances_of(kind: Kind, replicas: int, tensor_parallel: int, stages: int = 1, gpu: str = "a") -> Instances:
    return Instances(kind, gpu, tensor_parallel, stages, replicas)


def letters(found: Layout) -> list[str]:
    return ["".join(kind[0] for kind in node) for node in found.nodes]


def test_gpus_that_split_a_layer_share_a_node_and_wide_instances_come_first() -> None:
    found = fill_nodes([instances_of("prefill", 3, 1), instances_of("decode", 3, 2)], 4)
    assert letters(found) == ["dddd", "ddpp", "p"]
    assert found.places == {"prefill": [1, 1, 2], "decode": [0, 0, 1]}


@pytest.mark.parametrize("widths", [(1, 8), (2, 4), (4, 1), (8, 2)])
def test_nodes_are_filled_without_gaps_if_widths_divide_a_node(widths: tuple[int, int]) -> None:
    for replicas in range(1, 9):
        instances = [instances_of("prefill", replicas, widths[0]), instances_of("decode", 9 - replicas, widths[1], 3)]
        found = fill_nodes(instances, 8)
        gpus = replicas * widths[0] + (9 - replicas) * widths[1] * 3
        assert len(found.nodes) == nodes_needed(instances, 8) == -(-gpus // 8)


def test_a_node_has_gpus_of_one_kind() -> None:
    instances = [instances_of("prefill", 1, 2, gpu="h"), instances_of("decode", 1, 2, gpu="a")]
    assert letters(fill_nodes(instances, 8)) == ["pp", "dd"] and nodes_needed(instances, 8) == 2


def test_side_by_side_puts_each_stage_into_its_own_node() -> None:
    """Two groups have one prefill and two decode instances each, of two stages."""
    found = side_by_side([instances_of("prefill", 2, 1, 2), instances_of("decode", 4, 1, 2)], 2)
    assert letters(found) == ["pdd"] * 4 and found.places["prefill"] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("nodes", "busiest"),
    [
        (["pd"], 0.0),
        (["p", "d"], 1.0),  # everything leaves one node and enters the other
        (["pp", "pp", "dd"], 1.0),  # two nodes send a half each, one receives both
        (["pp", "pd"], 2 / 3),  # a third stays in its node
        (["pd", "pd"], 1 / 4),  # half of each half goes to the other node
        (["m", "m"], 0.0),
    ],
)
def test_the_busiest_node_counts_traffic_between_nodes(nodes: list[str], busiest: float) -> None:
    kinds: dict[str, Kind] = {"p": "prefill", "d": "decode", "m": "mixed"}
    assert Layout([[kinds[one] for one in node] for node in nodes], {}).busiest == pytest.approx(busiest)
