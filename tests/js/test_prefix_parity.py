"""The page predicts the hits that the engine's lookups find: windows, policies, salts, evictions."""

import json
import random
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loader import from_module
from tests.tiny_models import tiny_model, tiny_tokenizer
from tests.unit.engine.runs import CONFIGS, POLICIES, run
from tools.node import node

ROOT = Path(__file__).parents[2]


def lookups(path: Path) -> dict[str, Any]:
    """Return the outcomes of a log's lookups, and the lookups for which the page derives another outcome."""
    command = [node(), str(ROOT / "tests/js/prefix_lookups.mjs"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return cast(dict[str, Any], json.loads(done.stdout))


@pytest.mark.parametrize("name", [*CONFIGS, *POLICIES])
def test_every_lookup_of_a_run(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    run(name, path).close()
    assert lookups(path)["wrong"] == []


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize("seed", range(3))
def test_lookups_of_prompts_that_share_beginnings_in_a_small_pool(family: str, seed: int, tmp_path: Path) -> None:
    """Forty prompts of a few beginnings, under three salts, in a pool that keeps evicting."""
    chance, path = random.Random(seed), tmp_path / "run.kvtrace"
    beginnings = [[chance.randrange(3, 60) for _ in range(24)] for _ in range(3)]
    model = from_module(tiny_model(family), tiny_tokenizer(), f"tiny-{family}")
    config = EngineConfig(block_size=4, num_blocks=40, max_num_seqs=3, max_num_batched_tokens=32)
    with Engine(model, config, log_path=path) as engine:
        for i in range(40):
            prompt = [*chance.choice(beginnings)[: chance.choice((3, 9, 16, 24))], 3 + i]
            salt = chance.choice([None, None, None, "a", "b"])
            params = SamplingParams(max_tokens=chance.randrange(1, 6), ignore_eos=True)
            engine.add_request(prompt, params, f"r{i}", cache_salt=salt)
            for _ in range(chance.randrange(3)):
                if engine.has_unfinished():
                    engine.step()
        while engine.has_unfinished():
            engine.step()
    found = lookups(path)
    assert found["wrong"] == []
    assert found["asked"]["hit"] > 5 and found["asked"]["miss"] > 1
    assert {"all", "evicted", "differs", "too_short"} <= set(found["ends"])
