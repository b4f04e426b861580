"""vLLM's side of `beside_vllm`: an offline `LLM` whose scheduler records its decisions. Requires vLLM.

    python tests/load/vllm_schedule.py ASKED.json FOUND.jsonl

`scheduler_cls` is vLLM's extension point for schedulers; here it is vLLM's scheduler with recording. FOUND has a line
per step: {"scheduled": {request: tokens}, "computed": {request: tokens before the step}, "blocks": {request: ids},
"preempted": [request, ...], "free": number of free blocks}; the last line has the outputs.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the scheduler must run in this process

from vllm import LLM, SamplingParams, __version__
from vllm.v1.core.sched.scheduler import Scheduler


def telling(base: type, steps: list[dict[str, Any]]) -> type:
    """Return a subclass of the scheduler `base` (vLLM's, or a subclass of it) that records its output."""

    class Telling(base):  # type: ignore[misc]  # what it is, is known where vLLM is
        """Scheduler that records from vLLM's `SchedulerOutput`, requests and KV cache manager only."""

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
    scheduler = telling(Scheduler, steps)
    llm = LLM(**job["engine"], scheduler_cls=scheduler, async_scheduling=False, disable_log_stats=True)
    prompts = [{"prompt_token_ids": one["prompt"]} for one in job["requests"]]
    sampling = [
        SamplingParams(temperature=0.0, max_tokens=one["max_tokens"], ignore_eos=True, detokenize=False)
        for one in job["requests"]
    ]
    by_rank = job["engine"]["scheduling_policy"] == "priority"
    ranks = [one["priority"] for one in job["requests"]] if by_rank else None
    answers = llm.generate(prompts, sampling, use_tqdm=False, priority=ranks)
    outputs = {one.request_id: list(one.outputs[0].token_ids) for one in answers}
    with Path(sys.argv[2]).open("w", encoding="utf-8") as file:
        for step in steps:
            file.write(json.dumps(step) + "\n")
        file.write(json.dumps({"outputs": outputs, "vllm": __version__}) + "\n")


if __name__ == "__main__":
    main()
