"""Command that serves requests with an installed vLLM and records the run.

    python -m engine.observe.vllm_recorder.offline JOB.json

The job has `engine` (options of `vllm.LLM`), `requests` and `trace` (a path). A request has `request_id`, `prompt`
(token ids), `max_tokens`, and optionally `priority`, `ignore_eos` and `at_step`, the step before which it is added.
Decoding is greedy. The last line of the output is JSON with `vllm` (version), `seconds`, `ended` (why recording ended
early, or null) and `outputs` (the requests' tokens).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from engine.observe.vllm_recorder.hooks import scheduler_class


def serve(job: dict[str, Any], scheduler: Any = None) -> dict[str, Any]:
    """Run a job. `scheduler`: replacement for the recording scheduler class."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # run the scheduler in this process
    from vllm import LLM, SamplingParams, __version__

    watched = scheduler or scheduler_class(Path(job["trace"]))
    llm = LLM(**job["engine"], scheduler_cls=watched, disable_log_stats=True)
    engine, todo, outputs = llm.llm_engine, list(job["requests"]), dict[str, list[int]]()
    has_priority = job["engine"].get("scheduling_policy") == "priority"
    began, num_steps = time.perf_counter(), 0
    while todo or engine.has_unfinished_requests():
        while todo and (todo[0].get("at_step", 0) <= num_steps or not engine.has_unfinished_requests()):
            one = todo.pop(0)
            sampling = SamplingParams(
                temperature=0.0,
                max_tokens=one["max_tokens"],
                ignore_eos=one.get("ignore_eos", False),
                detokenize=False,
            )
            prompt = {"prompt_token_ids": one["prompt"]}
            engine.add_request(
                one["request_id"], prompt, sampling, priority=one.get("priority", 0) if has_priority else 0
            )
        for answer in engine.step():
            if answer.finished:
                outputs[answer.request_id] = list(answer.outputs[0].token_ids)
        num_steps += 1
    seconds = time.perf_counter() - began
    recorder = engine.engine_core.engine_core.scheduler.recorder
    recorder.close()
    return {"vllm": __version__, "seconds": seconds, "ended": recorder.ended, "outputs": outputs}


def main() -> None:
    print(json.dumps(serve(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))), flush=True)


if __name__ == "__main__":
    main()
