"""Milliseconds per token while other programs compute: `python -m tests.load.busy [--model NAME] [--programs 0 1 2]`.

Each program runs in a separate session, like other programs of a user, since Linux shares cores between sessions. Every
run has a new engine, which first determines its number of threads; this affects the mean, but not the median.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from itertools import pairwise

from engine.bench.drive import run_engine
from engine.bench.models import Models
from engine.bench.workload import Random, requests_of
from engine.config import EngineConfig, SamplingParams
from engine.model.thread_count import ThreadCount

BUSY = "while True: sum(range(10_000))"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="llama-135m-random", help="as in a benchmark scenario")
    parser.add_argument("--programs", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--keep-threads", action="store_true", help="always use all threads")
    given = parser.parse_args()
    if given.keep_threads:
        ThreadCount.note = lambda self, wall, cpu: None  # type: ignore[method-assign]
    model = Models().engine_model(given.model, "float32", compiled=True)
    config = EngineConfig(num_blocks=64, max_num_seqs=1, num_logprobs=0, enforce_eager=False)
    asks = requests_of(
        Random(num_requests=1, prompt_tokens=32, output_tokens=given.tokens), model.facts.vocab_size, seed=0
    )
    for count in given.programs:
        programs = [subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) for _ in range(count)]
        try:
            runs = [run_engine(model, config, asks, SamplingParams(temperature=0, ignore_eos=True)) for _ in range(4)]
        finally:
            for program in programs:
                program.kill()
                program.wait()
        times = [later - earlier for run in runs for earlier, later in pairwise(run.requests[0].tokens)]
        median, mean = statistics.median(times) * 1e3, statistics.mean(times) * 1e3
        print(f"{count} programs: median {median:.2f}, mean {mean:.2f} ms a token", flush=True)


if __name__ == "__main__":
    main()
