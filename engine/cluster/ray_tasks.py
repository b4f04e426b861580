"""Function calls on a Ray cluster. Needs the extra `ray`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import ray

from engine.system.host import child_environment

Result = TypeVar("Result")


def environment() -> dict[str, Any]:
    """Return the runtime environment in which a Ray process can import this package."""
    own = child_environment(HF_HUB_DISABLE_PROGRESS_BARS="1")
    names = ("PYTHONPATH", "PYTHONSAFEPATH", "HF_HUB_DISABLE_PROGRESS_BARS")
    return {"env_vars": {name: own[name] for name in names}}


def on_ray(
    address: str | None, do: Callable[..., Result], calls: Sequence[tuple[object, ...]]
) -> Iterator[tuple[int, Result]]:
    """Call a function for each tuple of arguments, on one processor each. Yields (index, result) as calls finish.

    `address`: address of a Ray cluster; None: a running local cluster, or a temporary one.

    Raises:
        ConnectionError: no cluster answers at the address.
    """
    is_own = not ray.is_initialized()
    if is_own:
        ray.init(address=address, include_dashboard=False, log_to_driver=False)
    try:
        task = ray.remote(num_cpus=1, runtime_env=environment())(do)
        pending = {task.remote(*arguments): index for index, arguments in enumerate(calls)}
        while pending:
            (done, *_), _ = ray.wait(list(pending))
            yield pending.pop(done), ray.get(done)
    finally:
        if is_own:
            ray.shutdown()
