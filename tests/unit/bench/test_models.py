"""Models named in a benchmark."""

from engine.bench.scenario import without_paths
from tests.unit.bench.small import SMALL, TEXT, scenario


def test_a_record_names_folders_without_their_paths() -> None:
    spec = scenario(
        model="/home/ada/models/tiny",
        axis={
            "name": "model",
            "title": TEXT,
            "cases": [{"value": "own", "set": {"model": "~/models/own"}}, {"value": "hub", "set": {"model": "a/b"}}],
        },
        variants=[{"id": "none", "title": TEXT, "set": {"model": "./other", "engine.block_size": 8}}],
    )
    without = without_paths(spec)
    assert without.model == "tiny"
    assert [case.set for case in without.axis.points()] == [{"model": "own"}, {"model": "a/b"}]
    assert without.variants[0].set == {"model": "other", "engine.block_size": 8}
    assert without_paths(scenario()) == scenario() and SMALL.get("model") is None
