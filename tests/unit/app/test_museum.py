"""Every exhibit shows its fault on the model that the page uses for it."""

from typing import Any, get_args

import pytest

from app.scenes.museum import EXHIBITS, Exhibit
from app.scenes.presets import PRESETS
from app.scenes.scene_texts import Kind, languages, prompts_of, scene_texts
from engine.cache.guards import Rule
from engine.config import EngineConfig, FaultName, SamplingParams
from engine.lab.faults import make_cluster, make_engine
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.requests.request_spec import RequestSpec
from engine.trace.operations import Copy, Lookup, Preempt
from engine.trace.records import StepRecord

# the first guard rule that each fault breaks; the guards detect no other fault
FIRST_OBJECTION = {"no_copy_at_shared_write": "shared_write", "stale_hash_after_reallocation": "stale_index"}
BROKEN_OPERATION: dict[str, type] = {"no_copy_at_shared_write": Copy, "output_lost_at_preemption": Preempt}


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model("bundled", device="cpu")


def run(model: LoadedModel, exhibit: Exhibit, fault: FaultName | None, language: str) -> list[StepRecord]:
    config = EngineConfig(**exhibit.config, fault=fault)
    prompts = prompts_of("museum", exhibit.id, language)
    if config.num_instances:
        return run_several(model, config, prompts, SamplingParams(**exhibit.sampling))
    with make_engine(model, config) as engine:
        for prompt in prompts:
            engine.add_request(prompt, SamplingParams(**exhibit.sampling))
        while engine.has_unfinished():
            engine.step()
        assert engine.log is not None
        return [engine.log.record(index) for index in range(len(engine.log))]


def run_several(
    model: LoadedModel, config: EngineConfig, prompts: list[str], sampling: SamplingParams
) -> list[StepRecord]:
    cluster = make_cluster(model, config)
    cluster.submit([RequestSpec(prompt, sampling) for prompt in prompts])
    while cluster.num_unfinished:
        cluster.step()
    records = [cluster.log.record(index) for index in range(len(cluster.log))]
    cluster.close()
    return records


def tokens(records: list[StepRecord]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for record in records:
        for output in record.outputs:
            found.setdefault(output.seq_id, []).append(output.token_id)
    return found


def test_every_fault_has_one_exhibit() -> None:
    assert [exhibit.id for exhibit in EXHIBITS] == list(get_args(FaultName))


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.id)
def test_only_the_faulty_run_of_an_exhibit_breaks(model: LoadedModel, exhibit: Exhibit, language: str) -> None:
    """The tokens of both runs differ. With a stale hash, the third request hits content that is gone."""
    healthy, faulty = run(model, exhibit, None, language), run(model, exhibit, exhibit.id, language)
    assert not any(record.integrity for record in healthy)
    assert tokens(healthy) != tokens(faulty)
    objections = [found.rule for record in faulty for found in record.objections]
    assert next(iter(objections), None) == FIRST_OBJECTION.get(exhibit.id)
    assert any(record.integrity for record in faulty) == (exhibit.id in FIRST_OBJECTION)
    assert set(objections) <= set(get_args(Rule)) - {""}
    if broken := BROKEN_OPERATION.get(exhibit.id):
        assert any(isinstance(op, broken) for record in healthy for op in record.ops)
    if exhibit.id == "stale_hash_after_reallocation":
        wrong, right = (
            [op.num_hit_tokens for record in records for op in record.ops if isinstance(op, Lookup)][2]
            for records in (faulty, healthy)
        )
        assert wrong > right


SCENES: list[tuple[Kind, list[Any], list[str]]] = [
    ("presets", list(PRESETS), ["title", "watch", "end", "prompts"]),
    ("museum", list(EXHIBITS), ["title", "text", "watch", "prompts"]),
]


@pytest.mark.parametrize(("kind", "scenes", "names"), SCENES, ids=["presets", "museum"])
def test_every_scene_has_texts_in_every_language(kind: Kind, scenes: list[Any], names: list[str]) -> None:
    for scene in scenes:
        found = scene_texts(kind, scene)
        for name in names:
            assert list(found[name]) == languages() and all(found[name].values()), (scene.id, name)
        assert len({len(prompts) for prompts in found["prompts"].values()}) == 1, scene.id
    assert {"en", "zh"} <= set(languages())
