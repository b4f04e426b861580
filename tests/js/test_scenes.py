"""The final sentence of a scene holds for its run: the page's figures equal those of the engine's records."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.scenes.presets import PRESETS
from app.scenes.scene_texts import languages, prompts_of, scene_texts
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.trace.operations import Copy, Finish, Fork, Preempt, Release, Submit
from tests.js.node_run import node_output
from tests.scene_runs import Played, play, scene


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model("bundled")


@pytest.fixture(scope="module")
def hybrid() -> LoadedModel:
    return load_model("bundled-hybrid")


def page_on(path: Path, scene_id: str, language: str) -> dict[str, Any]:
    """Return the page's reading of a trace: figures, whether each record is the last one, and the scene's last
    sentence.
    """
    preset = scene(scene_id)
    end = scene_texts("presets", preset)["end"][language]
    found: dict[str, Any] = json.loads(node_output("scene_dump.mjs", path, preset.seq or 0, end))
    return found


def entries(played: Played, seq_id: int) -> list[Any]:
    return [entry for record in played.steps for entry in record.batch if entry.seq_id == seq_id]


def expected(played: Played, scene_id: str, language: str, size: int) -> dict[str, int]:
    """Return the figures from the engine's records."""
    seq = scene(scene_id).seq or 0
    everybody = sorted({entry.seq_id for record in played.steps for entry in record.batch})
    again = 0
    for one in everybody:
        reached = 0
        for entry in entries(played, one):
            again += max(0, min(reached, entry.start + len(entry.token_ids)) - entry.start)
            reached = max(reached, entry.start + len(entry.token_ids))
    prefills = [entry for entry in entries(played, seq) if entry.phase == "prefill"]
    return {
        "sequences": len(played.ops(Submit)) + len(played.ops(Fork)),
        "steps": len(played.steps),
        "computed": sum(len(entry.token_ids) for record in played.steps for entry in record.batch),
        "again": again,
        "without": sum(e.context_len for record in played.steps for e in record.batch if e.samples),
        "most_at_once": max(len(record.batch) for record in played.steps),
        "last_keys": played.steps[-1].batch[-1].context_len,
        "copies": len(played.ops(Copy)),
        "dropped": sum(isinstance(op, Finish) and op.reason == "dropped" for _, op in played.ops(Finish)),
        "preemptions": len(played.ops(Preempt)),
        "released": len(played.ops(Release)),
        "chunks": len(prefills),
        "hit": prefills[0].start if prefills else 0,
        "blocks_of_all": max(-(-max(e.context_len for e in entries(played, one)) // size) for one in everybody),
    }


# What a sentence claims beyond its own numbers.
CLAIMS: dict[str, Any] = {
    "moon": lambda f: f["computed"] == f["text"] - 1 and f["without"] > 10 * f["computed"],
    "tokens": lambda f: f["prompt"] > max(f["words"], f["characters"]) > 0,
    "shared-prefix": lambda f: (f["hit"], f["hit_blocks"], f["fresh"]) == (16, 4, f["prompt"] - 16),
    "day": lambda f: (f["sequences"], f["hit"]) == (4, 16),
    "samples": lambda f: f["sequences"] == 3 and f["copies"] == 2 and f["shared"] >= 1,
    "beams": lambda f: f["kept"] == 3 and f["dropped"] == f["sequences"] - 3 > 0 and f["held"] < f["apart"],
    "batch": lambda f: f["sequences"] == 4 and f["most_at_once"] == 2 and f["most_empty"] <= 3,
    "chunks": lambda f: f["chunks"] == -(-f["prompt"] // 15),
    "preemption": lambda f: f["preemptions"] >= 1 and 0 < f["again"] < f["computed"],
    "fragments": lambda f: f["largest"] < f["needed"] <= f["in_holes"] and f["fragmented"] == 8,
    "hybrid": lambda f: f["held_windowed"] <= 4 < 10 < f["held_full"],
    "state": lambda f: (f["state_bytes"], f["equal_at"]) == (24_576, 48) and f["all_bytes"] == 3 * f["key_bytes"],
    "sinks": lambda f: f["held"] == 6 < f["blocks_of_all"] and f["released"] > 0,
    "guesses": lambda f: f["drafted"] > f["accepted"] > 0 and f["outputs"] == f["steps"] + f["accepted"],
    "int4": lambda f: (f["token_bytes"], f["plain_bytes"], f["times"]) == (320, 2048, 6.4),
    "long": lambda f: f["most_empty"] <= 15 and f["last_keys"] == f["text"] - 1,
}


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("scene_id", [preset.id for preset in PRESETS])
def test_a_scene_ends_with_what_its_run_proves(
    model: LoadedModel, hybrid: LoadedModel, tmp_path: Path, scene_id: str, language: str
) -> None:
    path = tmp_path / "run.kvtrace"
    played = play(hybrid if scene(scene_id).model else model, scene_id, language, trace=path)
    found = page_on(path, scene_id, language)
    figures = found["figures"]
    wanted = expected(played, scene_id, language, scene(scene_id).config["block_size"])
    if scene_id == "samples":  # the protagonist is a fork, which had no lookup
        del wanted["chunks"], wanted["hit"]
    assert {name: figures[name] for name in wanted} == wanted
    assert CLAIMS[scene_id](figures), figures
    assert not re.search(r"[{}]", found["end"]), "every figure of the sentence is one that the page has"
    last = max(record.index for record in played.records if any(isinstance(op, Finish) for op in record.ops))
    assert found["over"] == [index >= last for index in range(len(played.records))]


def test_every_scene_has_its_claims_and_its_prompts_in_every_language() -> None:
    assert list(CLAIMS) == [preset.id for preset in PRESETS]
    for preset in PRESETS:
        counts = {len(prompts_of("presets", preset.id, language)) for language in languages()}
        assert len(counts) == 1 and preset.after_steps == sorted(preset.after_steps)
        assert len(preset.after_steps) in (0, *counts)
