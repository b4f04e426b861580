"""Recorder of vLLM in its own process: a trace of its scheduler's decisions and blocks.

from engine.observe.vllm_recorder import watched

llm = LLM(model, scheduler_cls=watched("run.kvtrace"))

`door` uses vLLM's extension point `scheduler_cls`: vLLM's own scheduler with hooks on its calls of the block pool.
`terms` decides which vLLM configurations can be recorded. `recorder` turns hooked calls into records; `blocks` models
the pool to check them. vLLM's behaviour is not changed; if a call cannot be recorded, the log ends and vLLM continues.

Only `door` and `terms` depend on vLLM, and they import it lazily. The other requirements are numpy and msgspec.
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
    from engine.observe.vllm_recorder.door import scheduler_class

    return scheduler_class(Path(path))
