"""Limits torch.fx's patches to the tracing thread.

While it traces, torch.fx replaces `torch.nn.Module.__call__` and `__getattr__` for the whole process. A thread that
serves meanwhile would call modules through the tracer, which fails (NameError) or adds them to its graph. torch.fx has
no narrower option, so the patches are wrapped to check which thread calls.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from torch.fx import _symbolic_trace

_lock = threading.Lock()


def keep_tracing_to_its_thread() -> None:
    """Idempotent. Before anything is traced beside a thread that computes.

    Raises:
        ValueError: this version of torch patches modules in another way.
    """
    patcher: Any = getattr(_symbolic_trace, "_Patcher", None)
    if patcher is None or not hasattr(patcher, "patch_method"):
        raise ValueError("this version of torch traces in a way that is not known to leave other threads alone")
    with _lock:
        original = patcher.patch_method
        if getattr(original, "looks_at_the_thread", False):
            return

        @functools.wraps(original)
        def patch_method(self: Any, cls: type, name: str, new_fn: Callable[..., Any], *more: Any, **named: Any) -> Any:
            return original(self, cls, name, _for_this_thread(getattr(cls, name), new_fn), *more, **named)

        patch_method.looks_at_the_thread = True  # type: ignore[attr-defined]
        patcher.patch_method = patch_method


def _for_this_thread(before: Callable[..., Any], patched: Callable[..., Any]) -> Callable[..., Any]:
    here = threading.get_ident()

    @functools.wraps(patched)
    def either(*given: Any, **named: Any) -> Any:
        return (patched if threading.get_ident() == here else before)(*given, **named)

    return either
