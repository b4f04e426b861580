"""Program of a peer that repeats the last token of each prompt."""

import os
from collections.abc import Callable
from typing import Any

from engine.bench.peers.foreign.serving import Job, serve

REFUSED, FATAL = 13, 99  # output lengths that raise an error or end the process


def load(source: str, dtype: str, folder: str) -> tuple[str, Callable[[Job], dict[str, Any]]]:
    print("a library says something")
    if dtype != "float32":
        raise ValueError(f"no {dtype}")
    return "last 1.0", run


def run(job: Job) -> dict[str, Any]:
    if REFUSED in job["lengths"]:
        raise ValueError("not so many")
    if FATAL in job["lengths"]:
        os._exit(3)
    outputs = [[prompt[-1]] * n for prompt, n in zip(job["prompts"], job["lengths"], strict=True)]
    return {"seconds": 2.0, "times": [[1.0] * n for n in job["lengths"]], "outputs": outputs}


if __name__ == "__main__":
    serve(load)
