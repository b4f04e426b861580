"""The trace of a watched vLLM beside what its scheduler gave out: where vLLM is installed, with this tree on the path.

    PYTHONPATH=. ENV/bin/python -m tests.load.watch_vllm JOB.json RAW.jsonl

JOB as `engine.watch.offline` reads it. A line of RAW for each step, from vLLM's `SchedulerOutput` and its manager's own
answer, without the watch: {"scheduled": {request: tokens}, "computed": {request: tokens before}, "blocks": {request:
ids}, "preempted": [request, ...], "free": blocks that nobody holds}; a last one with the answer of `serve`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from engine.watch.door import scheduler_class
from engine.watch.offline import serve


def telling(path: Path, steps: list[dict[str, Any]]) -> Any:
    """The watched scheduler, which also writes down its raw output."""

    class Telling(scheduler_class(path)):  # type: ignore[misc]
        """Reads nothing that the watch has made."""

        def schedule(self, *arguments: Any, **options: Any) -> Any:
            before = {name: one.num_preemptions for name, one in self.requests.items()}
            found = super().schedule(*arguments, **options)
            if found.num_scheduled_tokens:
                computed = {one.req_id: one.num_computed_tokens for one in found.scheduled_new_reqs}
                again = found.scheduled_cached_reqs
                computed |= dict(zip(again.req_ids, again.num_computed_tokens, strict=True))
                manager = self.kv_cache_manager
                steps.append(
                    {
                        "scheduled": found.num_scheduled_tokens,
                        "computed": computed,
                        "blocks": {name: manager.get_block_ids(name)[0] for name in computed},
                        "preempted": [
                            name for name, one in self.requests.items() if one.num_preemptions > before.get(name, 0)
                        ],
                        "free": manager.block_pool.get_num_free_blocks(),
                    }
                )
            return found

    return Telling


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    steps: list[dict[str, Any]] = []
    answer = serve(job, telling(Path(job["trace"]), steps))
    lines = [json.dumps(line) for line in [*steps, answer]]
    Path(sys.argv[2]).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
