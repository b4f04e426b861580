"""Function calls on a Ray cluster, and the imports that its processes need. Needs the extra `ray`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import ray

from engine.system.host import child_environment

Result = TypeVar("Result")


def environment() -> dict[str, Any]:
    """Return the environment in which a Ray process can import this package."""
    own = child_environment(HF_HUB_DISABLE_PROGRESS_BARS="1")
    names = ("PYTHONPATH", "PYTHONSAFEPATH", "HF_HUB_DISABLE_PROGRESS_BARS")
    return {"env_vars": {name: own[name] for name in names}}


def on_ray(
    address: str | None, do: Callable[..., Result], calls: Sequence[tuple[object, ...]]
) -> Iterator[tuple[int, Result]]:
    """Call a function for each tuple of arguments, one processor each; yield (index, result) as calls finish.

    `address`: of a Ray cluster; None: an existing one, or a temporary one on this machine.

    Raises:
        ConnectionError: there is no cluster at the address.
    """
    is_own = not ray.is_initialized()
    if is_own:
        ray.init(address=address, include_dashboard=False, log_to_driver=False)
    try:
        task = ray.remote(num_cpus=1, runtime_env=environment())(do)
        places = {task.remote(*one): place for place, one in enumerate(calls)}
        while places:
            (done, *_), _ = ray.wait(list(places))
            yield places.pop(done), ray.get(done)
    finally:
        if is_own:
            ray.shutdown()
