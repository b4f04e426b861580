"""Protocol between a benchmark and a peer's process: JSON, one object per line, with a reply to each.

    {"source": folder, "dtype": "float32", "folder": where it may write}   ->  {"version": "name 1.2"}
    {"prompts": [[id]], "lengths": [n], "num_slots": n, "max_num_seqs": n, "max_num_batched_tokens": n,
     "prompt_logprobs": whether to return them}
                            ->  {"seconds": s, "times": [[s]], "outputs": [[id]], "resident_bytes": n,
                                 "prompt_logprobs"?: [nats] of each prompt's second token on}

The first line loads the model; each further line is a run with greedy decoding, `lengths` output tokens per prompt and
end tokens ignored. Times are seconds since the start of the run. An error is {"error": sentence}. The process exits at
the end of input.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

Job = dict[str, Any]


def serve(load: Callable[[str, str, str], tuple[str, Callable[[Job], dict[str, Any]]]]) -> None:
    """Reply until the input ends. `load` (source, dtype, folder) returns the version and a function that runs a job."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # stdout becomes stderr, because libraries print to stdout
    run: Callable[[Job], dict[str, Any]] | None = None
    for line in sys.stdin:
        job = json.loads(line)
        try:
            if run is None:
                version, run = load(job["source"], job["dtype"], job["folder"])
                answer = {"version": version}
            else:
                answer = run(job) | {"resident_bytes": resident_bytes()}
        except Exception as error:  # a library may raise anything: the benchmark reports it and continues
            answer = {"error": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
        print(json.dumps(answer), file=answers, flush=True)


def resident_bytes() -> int | None:
    """Return the resident memory of this process in bytes; None without /proc."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            found = next(line for line in status if line.startswith("VmRSS"))
    except (OSError, StopIteration):
        return None
    return int(found.split()[1]) << 10
