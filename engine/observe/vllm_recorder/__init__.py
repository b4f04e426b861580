"""A vLLM in the same process, written down as a trace: what its scheduler decides, and what becomes of its blocks.

from engine.observe.vllm_recorder import watched

llm = LLM(model, scheduler_cls=watched("run.kvtrace"))

`door` is vLLM's own door for a scheduler (`scheduler_cls`): its scheduler as it is, with listeners at the methods
through which it reaches its block pool. `terms` says what of vLLM's configuration can be written down. `recorder` puts
what is heard in order and into records; `blocks` has the books of the pool that it is checked against. Nothing is
changed, and when something cannot be written the log ends and vLLM goes on.

Only `door` and `terms` know vLLM, and they import it when it is there. What is needed beside it: numpy and msgspec.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.observe.vllm_recorder.errors import WatchError

__all__ = ["WatchError", "watched"]


def watched(path: str | Path) -> Any:
    """A `scheduler_cls` for `vllm.LLM`, which writes the run to `path`.

    Raises:
        WatchError: vLLM is not there. Where its configuration is one that a trace has no words for, making the LLM
            raises it, before anything runs.
    """
    from engine.observe.vllm_recorder.door import scheduler_class

    return scheduler_class(Path(path))
