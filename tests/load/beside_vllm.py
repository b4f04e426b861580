"""Comparison of scheduling with vLLM: `python -m tests.load.beside_vllm --python ENV/bin/python [--into FILE]`.

ENV is an environment with vLLM. Both engines get the same settings and requests, all submitted at the beginning.
Scheduled requests and tokens, prefix-cache hits, preemptions and output tokens are compared step by step, without
times. If the engines diverge, the first differing step is reported.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loader import load_model
from engine.trace.operations import Preempt
from tests.load.record import Measuring

MODEL = Path(__file__).resolve().parents[2] / "engine" / "model" / "bundled"
THEIRS = Path(__file__).with_name("vllm_schedule.py")
BLOCK_SIZE = 32  # the smallest of vLLM on a CPU
# settings that limit scheduling: pool (a block less than vLLM's, whose block 0 is never used), sequences, token budget
CASES: dict[str, dict[str, Any]] = {
    "room for all": {},
    "evictions": {"blocks": 48, "max_num_seqs": 4},
    "preemptions": {"blocks": 25},
    "preemptions, no prefix caching": {"blocks": 33, "enable_prefix_caching": False},
    "preemptions, the first chunk is enough": {"blocks": 25, "scheduler_reserve_full_isl": False},
    "a small budget": {"blocks": 40, "max_num_batched_tokens": 48},
    "no chunked prefill": {"blocks": 40, "max_num_batched_tokens": 512, "enable_chunked_prefill": False},
    "priorities": {"blocks": 33, "scheduling_policy": "priority"},
}
DEFAULTS: dict[str, Any] = {
    "blocks": 256,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 128,
    "enable_prefix_caching": True,
    "enable_chunked_prefill": True,
    "scheduler_reserve_full_isl": True,
    "scheduling_policy": "fcfs",
}
MAX_MODEL_LEN = 512
Step = dict[str, Any]


def requests(number: int, seed: int) -> list[dict[str, Any]]:
    """Return prompts of 72 to 164 tokens with one of four prefixes, and output lengths of 4 to 59 tokens."""
    draw = random.Random(seed)
    beginnings = [[draw.randrange(5, 8000) for _ in range(64)] for _ in range(4)]
    return [
        {
            "prompt": beginnings[index % 4] + [draw.randrange(5, 8000) for _ in range(draw.randrange(8, 101))],
            "max_tokens": draw.randrange(4, 60),
            "priority": draw.randrange(3),
        }
        for index in range(number)
    ]


def theirs(python: str, settings: dict[str, Any], requests: list[dict[str, Any]]) -> tuple[list[Step], Step]:
    """Return vLLM's steps and its final results."""
    given = {name: value for name, value in settings.items() if name != "blocks"}
    engine = given | {
        "model": str(MODEL),
        "block_size": BLOCK_SIZE,
        "num_gpu_blocks_override": settings["blocks"],
        "max_model_len": MAX_MODEL_LEN,
        "enforce_eager": True,
        "dtype": "float32",
    }
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        wanted, found = Path(folder) / "asked.json", Path(folder) / "found.jsonl"
        wanted.write_text(json.dumps({"engine": engine, "requests": requests}), encoding="utf-8")
        done = subprocess.run(
            [python, str(THEIRS), str(wanted), str(found)], env=env, capture_output=True, text=True, cwd=folder
        )
        if done.returncode:
            raise SystemExit(f"vLLM did not run:\n{done.stderr[-3000:]}")
        *steps, last = [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()]
    return steps, last


def ours(settings: dict[str, Any], requests: list[dict[str, Any]]) -> tuple[list[Step], Step]:
    """Return the steps and final results of this project's engine."""
    given = {name: value for name, value in settings.items() if name != "blocks"}
    config = EngineConfig(
        block_size=BLOCK_SIZE,
        num_blocks=settings["blocks"] - 1,
        max_model_len=MAX_MODEL_LEN,
        enforce_eager=True,
        **given,
    )
    steps = list[Step]()
    with Engine(load_model(str(MODEL)), config) as engine:
        for one in requests:
            sampling = SamplingParams(max_tokens=one["max_tokens"], ignore_eos=True, temperature=0.0)
            engine.add_request(one["prompt"], sampling, priority=one["priority"])
        while engine.has_unfinished():
            engine.step()
        log = engine.log
        assert log is not None
        for index in range(len(log)):
            record = log.record(index)
            if record.kind == "step":
                steps.append(
                    {
                        "scheduled": {str(entry.seq_id): len(entry.token_ids) for entry in record.batch},
                        "computed": {str(entry.seq_id): entry.start for entry in record.batch},
                        "preempted": [str(op.seq_id) for op in record.ops if isinstance(op, Preempt)],
                    }
                )
        finished = log.state_now().sequences
        outputs = {str(seq): state.token_ids[len(requests[seq]["prompt"]) :] for seq, state in finished.items()}
    return steps, {"outputs": outputs}


def plain(step: Step) -> Step:
    """Return a record with comparable request ids: vLLM appends a random suffix to each."""
    named = {
        what: {name.split("-")[0]: value for name, value in step[what].items()} for what in ("scheduled", "computed")
    }
    return named | {"preempted": sorted(name.split("-")[0] for name in step["preempted"])}


def compared(python: str, name: str, number: int, seed: int, keep: Path | None) -> dict[str, Any]:
    """Compare one case. `keep`: folder to write vLLM's steps to, as fixture of
    `tests/unit/scheduling/test_beside_vllm.py`.
    """
    settings, wanted = DEFAULTS | CASES[name], requests(number, seed)
    (here, here_last), (there, there_last) = ours(settings, wanted), theirs(python, settings, wanted)
    if keep:
        lines = [json.dumps(plain(step), sort_keys=True) for step in there]
        path = keep / f"{name.replace(', ', '-').replace(' ', '_')}.jsonl.gz"
        path.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    steps = [(plain(a), plain(b)) for a, b in zip(here, there, strict=False)]
    differs = next((index for index, (a, b) in enumerate(steps) if a != b), None)
    first = None if differs is None else {"step": differs, "ours": steps[differs][0], "theirs": steps[differs][1]}
    seen, hits = set[str](), 0
    for step, _ in steps:
        for request, start in step["computed"].items():
            hits += 0 if request in seen else start
            seen.add(request)
    tokens = sum(
        here_last["outputs"].get(request) == there_last["outputs"][request] for request in map(str, range(number))
    )
    return {
        "case": name,
        "seed": seed,
        "requests": number,
        "steps": [len(here), len(there)],
        "equal steps": len(steps) if differs is None else differs,
        "preemptions": [sum(len(step["preempted"]) for step in side) for side in (here, there)],
        "hit tokens at first admission": hits,
        "requests with equal tokens": tokens,
        "first difference": first,
        "vllm": there_last["vllm"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="of the environment that vLLM is installed in")
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--into", type=Path, help="the record")
    parser.add_argument("--keep", type=Path, help="a folder for what vLLM decided")
    arguments = parser.parse_args()
    measuring, found = Measuring(), list[dict[str, Any]]()
    for name in arguments.cases:
        found.append(compared(arguments.python, name, arguments.requests, arguments.seed, arguments.keep))
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    vllm = [one.pop("vllm") for one in found]
    measuring.record({"cases": found}, arguments.into, vllm=next(iter(vllm), "none"))


if __name__ == "__main__":
    main()
