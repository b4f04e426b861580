"""Hooks on vLLM's scheduler. Requires vLLM.

The scheduler's calls of its KV cache manager are hooked, and the manager's calls of its block pool. These are public
methods of `vllm.v1.core`, which are called unchanged. Tests pin the version.
"""

from __future__ import annotations

import atexit
import copyreg
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.observe.vllm_recorder.errors import WatchError
from engine.observe.vllm_recorder.recorder import Recorder
from engine.observe.vllm_recorder.terms import header_of, refuse_unsupported, settings_of, token_bytes_of
from engine.trace.log import TraceWriter
from engine.trace.operations import RELEASED

# pool methods of features that cannot be recorded: shared partial blocks, connectors
UNSUPPORTED = ("cache_partial_block", "evict_blocks", "move_block_hashes", "unpin_blocks")


def scheduler_class(path: Path) -> Any:
    """Return a subclass of vLLM's scheduler that records to `path`. Raises WatchError: vLLM is not installed."""
    return _class_for(str(path))


@functools.cache
def _class_for(path: str) -> Any:
    try:
        from vllm.v1.core.sched.scheduler import Scheduler
    except ImportError as error:
        raise WatchError(f"vLLM is not installed in this environment, so nothing can be recorded: {error}") from error

    # vLLM's engine core may be a separate process: pickle the class as a call of `_class_for`
    metaclass = type("RecordingMeta", (type(Scheduler),), {})
    copyreg.pickle(metaclass, lambda _: (_class_for, (path,)))  # type: ignore[arg-type]

    class RecordingScheduler(Scheduler, metaclass=metaclass):  # type: ignore[misc, metaclass]
        """vLLM's scheduler with hooks."""

        def __init__(self, vllm_config: Any, kv_cache_config: Any, *arguments: Any, **options: Any) -> None:
            refuse_unsupported(vllm_config, kv_cache_config)
            super().__init__(vllm_config, kv_cache_config, *arguments, **options)
            self.recorder = _recorder(Path(path), vllm_config, kv_cache_config)
            try:
                _hook_manager(self.kv_cache_manager, self.recorder)
                _hook_pool(self.kv_cache_manager.block_pool, self.recorder)
            except AttributeError as error:
                raise WatchError(f"this version of vLLM cannot be recorded: {error}") from error

        def add_request(self, request: Any) -> None:
            super().add_request(request)
            self.recorder.call(self.recorder.arrived, request)

        def finish_requests(self, *arguments: Any, **options: Any) -> Any:
            ended = super().finish_requests(*arguments, **options)
            if not self._updates:
                self.recorder.call(self.recorder.changed_between_steps)
            return ended

        def schedule(self, *arguments: Any, **options: Any) -> Any:
            self.recorder.call(self.recorder.scheduling)
            found = super().schedule(*arguments, **options)
            self.recorder.call(self.recorder.scheduled, found.num_scheduled_tokens)
            return found

        _updates = False  # whether a step's output is being processed

        def update_from_output(self, *arguments: Any, **options: Any) -> Any:
            self.recorder.call(self.recorder.computed)
            self._updates = True
            try:
                return super().update_from_output(*arguments, **options)
            finally:
                self._updates = False
                self.recorder.call(self.recorder.updated)

        def reset_prefix_cache(self, *arguments: Any, **options: Any) -> Any:
            done = super().reset_prefix_cache(*arguments, **options)
            self.recorder.call(self.recorder.changed_between_steps)
            return done

        def shutdown(self) -> None:
            super().shutdown()
            self.recorder.close()

    return RecordingScheduler


def _recorder(path: Path, vllm_config: Any, kv_cache_config: Any) -> Recorder:
    """Open the log at `path`. Raises WatchError: it cannot be written."""
    token_bytes = token_bytes_of(vllm_config.model_config)
    header = header_of(vllm_config, kv_cache_config, has_texts=token_bytes is not None)
    try:
        log = TraceWriter(header, path)
    except OSError as error:
        raise WatchError(f"{path} cannot be written: {error.strerror or error}") from error
    recorder = Recorder(log, settings_of(vllm_config, kv_cache_config), token_bytes)
    atexit.register(recorder.close)
    return recorder


def _before(recorder: Recorder, target: Any, name: str, hook: Callable[..., None]) -> None:
    """Call `hook` before each call of the method."""
    original = getattr(target, name)

    @functools.wraps(original)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        recorder.call(hook, *arguments, **options)
        return original(*arguments, **options)

    setattr(target, name, wrapper)


def _after(recorder: Recorder, target: Any, name: str, hook: Callable[..., None]) -> None:
    """Call `hook` after each call of the method, with its result and arguments."""
    original = getattr(target, name)

    @functools.wraps(original)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        answer = original(*arguments, **options)
        recorder.call(hook, answer, *arguments, **options)
        return answer

    setattr(target, name, wrapper)


def _hook_manager(manager: Any, recorder: Recorder) -> None:
    def looked_up(answer: Any, request: Any) -> None:
        blocks, num_tokens, *_ = answer
        recorder.looked_up(request, _ids(blocks.blocks[0]), num_tokens)

    def end_allocation(answer: Any, request: Any, num_new_tokens: int, *_: Any, **__: Any) -> None:
        recorder.end_allocation(request, num_new_tokens, answer is not None)

    _after(recorder, manager, "get_computed_blocks", looked_up)
    _before(recorder, manager, "allocate_slots", lambda request, *_, **__: recorder.allocating(request))
    _after(recorder, manager, "allocate_slots", end_allocation)
    _before(recorder, manager, "free", lambda request: recorder.freeing(request, request.is_finished()))
    _after(recorder, manager, "free", lambda _, request: recorder.freed(request, request.status.name))


def _hook_pool(pool: Any, recorder: Recorder) -> None:
    def cached(
        _: None,
        request: Any,
        blocks: Any,
        num_cached_blocks: int,
        num_full_blocks: int,
        block_size: int,
        kv_cache_group_id: int,
        block_mask: Any = None,
    ) -> None:
        new = [
            logical
            for logical in range(num_cached_blocks, num_full_blocks)
            if not blocks[logical].is_null and (block_mask is None or block_mask[logical - num_cached_blocks])
        ]
        if new:
            recorder.cached(request, new)

    _after(recorder, pool, "get_new_blocks", lambda blocks, _: recorder.allocated(_ids(blocks)))
    _after(recorder, pool, "touch", lambda _, blocks: recorder.shared(_held_ids(blocks)))
    _after(recorder, pool, "cache_full_blocks", cached)
    _after(recorder, pool, "reset_prefix_cache", lambda done: recorder.cache_reset() if done else None)
    for name in UNSUPPORTED:
        _before(recorder, pool, name, functools.partial(_refuse, name))
    original = pool.free_blocks

    @functools.wraps(original)
    def free_blocks(ordered_blocks: Any) -> None:
        blocks = list(ordered_blocks)  # may be an iterator
        original(blocks)
        recorder.call(recorder.freed_blocks, _held_ids(blocks))

    pool.free_blocks = free_blocks


def _refuse(name: str, *_: Any, **__: Any) -> None:
    raise WatchError(f"vLLM called {name} of its block pool, which cannot be recorded")


def _ids(blocks: Any) -> list[int]:
    """Return the log's block ids, which are vLLM's minus 1. vLLM's null block 0 becomes RELEASED."""
    return [block.block_id - 1 for block in blocks]


def _held_ids(blocks: Any) -> list[int]:
    """Return the log's ids of the blocks that are not null blocks."""
    return [block_id for block_id in _ids(blocks) if block_id != RELEASED]
