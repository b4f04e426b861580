"""Compare the compiled pass with the eager one on a processor without AVX-512: it must not be slower.

    python -m tests.load.instructions            on a quiet machine: as it is, and limited below AVX-512
    python -m tests.load.instructions --keep     and the record beside this file

Decode steps of one sequence and of 16, eager and compiled by turns in one process, which is limited to another
processor's instructions (`tests.processors`). Ratios are of the medians of a run's steps; below 1 compiled is faster.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from engine.bench.models import TINY, Models
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loaded import LoadedModel
from engine.model.shipped import BUNDLED
from tests.load.record import Measuring
from tests.processors import PROCESSORS

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_suffix(".json")
BOUND_TO = ("this one", "avx2")
PROMPT, OUTPUT = 32, 48  # tokens
MOST = 1.0  # compiled against eager


def step_seconds(model: LoadedModel, num_sequences: int, eager: bool) -> float:
    """Return the median of a run's decode steps."""
    config = EngineConfig(num_blocks=256, max_num_seqs=16, num_logprobs=0, enforce_eager=eager)
    with Engine(model, config, keep_log=False) as engine:
        for index in range(num_sequences):
            engine.add_request([5 + index] * PROMPT, SamplingParams(max_tokens=OUTPUT, ignore_eos=True))
        took = list[float]()
        while engine.has_unfinished():
            began = time.perf_counter()
            record = engine.step()
            if all(entry.phase == "decode" for entry in record.batch):
                took.append(time.perf_counter() - began)
                assert record.timing.compiled is not eager
    return statistics.median(took)


def measured(rounds: int) -> dict[str, Any]:
    """Measure this process, with its instruction limit."""
    models, found = Models(), dict[str, Any]()
    for name in (BUNDLED, TINY):
        model = models.engine_model(name, "auto", compiled=True)
        for count in (1, 16):
            turns = [[step_seconds(model, count, eager) for eager in (True, False)] for _ in range(1 + rounds)]
            eager, compiled = zip(*turns[1:], strict=True)  # the first is not counted
            ratios = sorted(b / a for a, b in turns[1:])
            found[f"{name}, {count}"] = {
                "eager_us": round(1e6 * statistics.median(eager)),
                "compiled_us": round(1e6 * statistics.median(compiled)),
                "ratio": round(statistics.median(ratios), 3),
                "range": [round(ratios[0], 3), round(ratios[-1], 3)],
            }
    models.close()
    return {"capability": torch.backends.cpu.get_cpu_capability(), "steps": found}


def main() -> int:
    """Measure; exit status 1 if compiled is slower somewhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--keep", action="store_true", help=f"write {RECORD.name} beside this file")
    parser.add_argument("--bound", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.bound:
        print(json.dumps(measured(given.rounds)))
        return 0
    measuring, found = Measuring(), dict[str, Any]()
    for name in BOUND_TO:
        done = subprocess.run(
            [sys.executable, "-m", "tests.load.instructions", "--bound", "--rounds", str(given.rounds)],
            cwd=ROOT, env={**os.environ, **PROCESSORS[name]}, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        found[name] = json.loads(done.stdout.splitlines()[-1])
        print(f"{name}: measured", flush=True)
    measuring.record({"rounds": given.rounds, "most": MOST, **found}, RECORD if given.keep else None)
    slower = [
        f"{name}: {case}" for name in BOUND_TO for case, one in found[name]["steps"].items() if one["ratio"] > MOST
    ]
    print("\n".join(f"slower compiled: {one}" for one in slower))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
