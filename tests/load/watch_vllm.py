"""Record vLLM with `vllm_recorder` and, independently, its scheduler's output. Requires vLLM and this tree on the path.

    PYTHONPATH=. ENV/bin/python -m tests.load.watch_vllm JOB.json RAW.jsonl

JOB has the format of `engine.observe.vllm_recorder.offline`. RAW has a line per step, from vLLM's `SchedulerOutput` and
KV cache manager, not from the recorder: {"scheduled": {request: tokens}, "computed": {request: tokens before},
"blocks": {request: ids}, "preempted": [request, ...], "free": number of free blocks}; the last line has the result of
`serve`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from engine.observe.vllm_recorder.hooks import scheduler_class
from engine.observe.vllm_recorder.offline import serve
from tests.load.vllm_schedule import telling


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    steps: list[dict[str, Any]] = []
    answer = serve(job, telling(scheduler_class(Path(job["trace"])), steps))
    lines = [json.dumps(line) for line in [*steps, answer]]
    Path(sys.argv[2]).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
