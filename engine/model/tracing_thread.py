"""Limits torch.fx's patches to the tracing thread.

While it traces, torch.fx replaces `torch.nn.Module.__call__` and `__getattr__` for the whole process. A thread that
serves meanwhile would call modules through the tracer, which fails (NameError) or adds them to its graph. torch.fx has
no narrower option, so the patches are wrapped to check the calling thread.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from torch.fx import _symbolic_trace

_lock = threading.Lock()


def limit_tracing_to_its_thread() -> None:
    """Install the check; idempotent. Must be called before tracing while another thread computes.

    Raises:
        ValueError: this version of torch patches modules in another way.
    """
    patcher: Any = getattr(_symbolic_trace, "_Patcher", None)
    if patcher is None or not hasattr(patcher, "patch_method"):
        raise ValueError("tracing with this version of torch may disturb other threads")
    with _lock:
        original = patcher.patch_method
        if getattr(original, "checks_thread", False):
            return

        @functools.wraps(original)
        def patch_method(self: Any, cls: type, name: str, new_fn: Callable[..., Any], *more: Any, **named: Any) -> Any:
            return original(self, cls, name, _for_this_thread(getattr(cls, name), new_fn), *more, **named)

        patch_method.checks_thread = True  # type: ignore[attr-defined]
        patcher.patch_method = patch_method


def _for_this_thread(original: Callable[..., Any], patched: Callable[..., Any]) -> Callable[..., Any]:
    tracing_thread = threading.get_ident()

    @functools.wraps(patched)
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        return (patched if threading.get_ident() == tracing_thread else original)(*args, **kwargs)

    return dispatch
