"""Instances in nodes: their placement, and the share of keys and values that leaves a node."""

import pytest

from engine.simulate.layout import Instances, Kind, Layout, fill_nodes, nodes_needed, side_by_side


def alike(kind: Kind, replicas: int, tensor_parallel: int, stages: int = 1, gpu: str = "a") -> Instances:
    return Instances(kind, gpu, tensor_parallel, stages, replicas)


def letters(found: Layout) -> list[str]:
    return ["".join(kind[0] for kind in node) for node in found.nodes]


def test_gpus_that_split_a_layer_are_in_one_node_and_the_wider_come_first() -> None:
    found = fill_nodes([alike("prefill", 3, 1), alike("decode", 3, 2)], 4)
    assert letters(found) == ["dddd", "ddpp", "p"]
    assert found.places == {"prefill": [1, 1, 2], "decode": [0, 0, 1]}


@pytest.mark.parametrize("widths", [(1, 8), (2, 4), (4, 1), (8, 2)])
def test_no_gpu_is_left_between_where_widths_divide_a_node(widths: tuple[int, int]) -> None:
    for replicas in range(1, 9):
        instances = [alike("prefill", replicas, widths[0]), alike("decode", 9 - replicas, widths[1], 3)]
        found = fill_nodes(instances, 8)
        gpus = replicas * widths[0] + (9 - replicas) * widths[1] * 3
        assert len(found.nodes) == nodes_needed(instances, 8) == -(-gpus // 8)


def test_a_node_has_gpus_of_one_kind() -> None:
    instances = [alike("prefill", 1, 2, gpu="h"), alike("decode", 1, 2, gpu="a")]
    assert letters(fill_nodes(instances, 8)) == ["pp", "dd"] and nodes_needed(instances, 8) == 2


def test_side_by_side_each_stage_has_its_node() -> None:
    """Two groups have one prefill and two decode instances each, of two stages."""
    found = side_by_side([alike("prefill", 2, 1, 2), alike("decode", 4, 1, 2)], 2)
    assert letters(found) == ["pdd"] * 4 and found.places["prefill"] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("nodes", "busiest"),
    [
        (["pd"], 0.0),
        (["p", "d"], 1.0),  # all of it leaves one and comes into the other
        (["pp", "pp", "dd"], 1.0),  # each of two sends a half, one receives both
        (["pp", "pd"], 2 / 3),  # a third is where it is wanted already
        (["pd", "pd"], 1 / 4),  # half of each half goes to the other
        (["m", "m"], 0.0),
    ],
)
def test_the_busiest_node_sends_or_takes_in_what_is_not_its_own(nodes: list[str], busiest: float) -> None:
    kinds: dict[str, Kind] = {"p": "prefill", "d": "decode", "m": "mixed"}
    assert Layout([[kinds[one] for one in node] for node in nodes], {}).busiest == pytest.approx(busiest)
