"""Hooks on vLLM's scheduler. Requires vLLM.

The hooks are on the scheduler's calls of its KV cache manager, and the manager's calls of its block pool: public
methods of `vllm.v1.core`, called unchanged. Tests pin the version.
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
from engine.observe.vllm_recorder.terms import header_of, refuse_unwritable, settings_of, token_bytes_of
from engine.trace.log import TraceWriter
from engine.trace.operations import RELEASED

# pool methods for unsupported features: shared partial blocks, connectors
UNWRITABLE = ("cache_partial_block", "evict_blocks", "move_block_hashes", "unpin_blocks")


def scheduler_class(path: Path) -> Any:
    """Return vLLM's scheduler class with recording to `path`. Raises WatchError: vLLM is not installed."""
    return _class_for(str(path))


@functools.cache
def _class_for(path: str) -> Any:
    try:
        from vllm.v1.core.sched.scheduler import Scheduler
    except ImportError as error:
        raise WatchError(f"vLLM is not installed in this environment, so nothing can be recorded: {error}") from error

    # pickled by its arguments, because vLLM's engine core may be a separate process
    named = type("Named", (type(Scheduler),), {})
    copyreg.pickle(named, lambda _: (_class_for, (path,)))  # type: ignore[arg-type]

    class WatchedScheduler(Scheduler, metaclass=named):  # type: ignore[misc, metaclass]
        """vLLM's scheduler, with hooks."""

        def __init__(self, vllm_config: Any, kv_cache_config: Any, *arguments: Any, **options: Any) -> None:
            refuse_unwritable(vllm_config, kv_cache_config)
            super().__init__(vllm_config, kv_cache_config, *arguments, **options)
            self.watching = _recorder(Path(path), vllm_config, kv_cache_config)
            try:
                _listen_to_manager(self.kv_cache_manager, self.watching)
                _listen_to_pool(self.kv_cache_manager.block_pool, self.watching)
            except AttributeError as error:
                raise WatchError(f"this version of vLLM cannot be recorded: {error}") from error

        def add_request(self, request: Any) -> None:
            super().add_request(request)
            self.watching.tell(self.watching.arrived, request)

        def finish_requests(self, *arguments: Any, **options: Any) -> Any:
            ended = super().finish_requests(*arguments, **options)
            if not self._updates:
                self.watching.tell(self.watching.ended_from_outside)
            return ended

        def schedule(self, *arguments: Any, **options: Any) -> Any:
            self.watching.tell(self.watching.scheduling)
            found = super().schedule(*arguments, **options)
            self.watching.tell(self.watching.scheduled, found.num_scheduled_tokens)
            return found

        _updates = False  # whether a step's output is being processed

        def update_from_output(self, *arguments: Any, **options: Any) -> Any:
            self.watching.tell(self.watching.computed)
            self._updates = True
            try:
                return super().update_from_output(*arguments, **options)
            finally:
                self._updates = False
                self.watching.tell(self.watching.updated)

        def reset_prefix_cache(self, *arguments: Any, **options: Any) -> Any:
            done = super().reset_prefix_cache(*arguments, **options)
            self.watching.tell(self.watching.ended_from_outside)
            return done

        def shutdown(self) -> None:
            super().shutdown()
            self.watching.close()

    return WatchedScheduler


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


def _before(to: Recorder, target: Any, name: str, listen: Callable[..., None]) -> None:
    """Call `listen` before each call of the method."""
    own = getattr(target, name)

    @functools.wraps(own)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        to.tell(listen, *arguments, **options)
        return own(*arguments, **options)

    setattr(target, name, wrapper)


def _after(to: Recorder, target: Any, name: str, listen: Callable[..., None]) -> None:
    """Call `listen` after each call of the method, with its result and arguments."""
    own = getattr(target, name)

    @functools.wraps(own)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        answer = own(*arguments, **options)
        to.tell(listen, answer, *arguments, **options)
        return answer

    setattr(target, name, wrapper)


def _listen_to_manager(manager: Any, to: Recorder) -> None:
    def looked_up(answer: Any, request: Any) -> None:
        blocks, num_tokens, *_ = answer
        to.looked_up(request, _ids(blocks.blocks[0]), num_tokens)

    def answered(answer: Any, request: Any, num_new_tokens: int, *_: Any, **__: Any) -> None:
        to.answered(request, num_new_tokens, answer is not None)

    _after(to, manager, "get_computed_blocks", looked_up)
    _before(to, manager, "allocate_slots", lambda request, *_, **__: to.allocating(request))
    _after(to, manager, "allocate_slots", answered)
    _before(to, manager, "free", lambda request: to.freeing(request, request.is_finished()))
    _after(to, manager, "free", lambda _, request: to.freed(request, request.status.name))


def _listen_to_pool(pool: Any, to: Recorder) -> None:
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
        fresh = [
            logical
            for logical in range(num_cached_blocks, num_full_blocks)
            if not blocks[logical].is_null and (block_mask is None or block_mask[logical - num_cached_blocks])
        ]
        if fresh:
            to.cached(request, fresh)

    _after(to, pool, "get_new_blocks", lambda blocks, _: to.took(_ids(blocks)))
    _after(to, pool, "touch", lambda _, blocks: to.shared(_there(blocks)))
    _after(to, pool, "cache_full_blocks", cached)
    _after(to, pool, "reset_prefix_cache", lambda done: to.cache_emptied() if done else None)
    for name in UNWRITABLE:
        _before(to, pool, name, functools.partial(_refuse, name))
    own = pool.free_blocks

    @functools.wraps(own)
    def free_blocks(ordered_blocks: Any) -> None:
        blocks = list(ordered_blocks)  # it may be an iterator
        own(blocks)
        to.tell(to.gave_back, _there(blocks))

    pool.free_blocks = free_blocks


def _refuse(name: str, *_: Any, **__: Any) -> None:
    raise WatchError(f"vLLM called {name} of its pool, which a trace cannot express")


def _ids(blocks: Any) -> list[int]:
    """Return block ids of the log, from 0: vLLM's block 0 is the null block, and RELEASED here."""
    return [block.block_id - 1 for block in blocks]


def _there(blocks: Any) -> list[int]:
    """Return the block ids that are not RELEASED."""
    return [block_id for block_id in _ids(blocks) if block_id != RELEASED]
