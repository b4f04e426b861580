"""Recorder of a vLLM in the same process: a trace of its scheduler's decisions and of its blocks.

from engine.observe.vllm_recorder import watched

llm = LLM(model, scheduler_cls=watched("run.kvtrace"))

`door` uses vLLM's extension point for a scheduler (`scheduler_cls`): vLLM's own scheduler, with hooks on the methods
through which it calls its block pool. `terms` decides which vLLM configurations can be recorded. `recorder` orders the
hooked calls into records; `blocks` models the pool to check them. vLLM's behaviour is not changed; when something
cannot be written, the log ends and vLLM continues.

Only `door` and `terms` depend on vLLM, and they import it lazily. The other requirements are numpy and msgspec.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["WatchError", "watched"]


class WatchError(ValueError):
    """A run that a trace cannot say; one sentence that says why."""


def watched(path: str | Path) -> Any:
    """Return a `scheduler_cls` for `vllm.LLM`, which writes the run to `path`.

    Raises:
        WatchError: vLLM is not there. Where its configuration is one that a trace has no words for, making the LLM
            raises it, before anything runs.
    """
    from engine.observe.vllm_recorder.door import scheduler_class

    return scheduler_class(Path(path))
