"""Recorder of vLLM, inside vLLM's process: a trace of the scheduler's decisions and of the blocks.

from engine.observe.vllm_recorder import watched

llm = LLM(model, scheduler_cls=watched("run.kvtrace"))

`hooks` subclasses vLLM's scheduler, for the extension point `scheduler_cls`, and hooks the calls of its block pool.
`terms` decides which vLLM configurations can be recorded. `recorder` converts hooked calls to records; `blocks` models
the pool to check them. vLLM's behaviour is not changed: if a call cannot be recorded, the log ends and vLLM continues.

Only `hooks` and `terms` import vLLM, lazily. The recorder also requires numpy and msgspec.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.observe.vllm_recorder.errors import WatchError as WatchError

__all__ = ["WatchError", "watched"]


def watched(path: str | Path) -> Any:
    """Return a `scheduler_cls` for `vllm.LLM` that records the run to `path`.

    Raises:
        WatchError: vLLM is not installed. Constructing the LLM raises it if its configuration cannot be recorded.
    """
    from engine.observe.vllm_recorder.hooks import scheduler_class

    return scheduler_class(Path(path))
