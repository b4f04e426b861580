"""Scheduler and cache manager with a fake model of exact arithmetic.

The "K and V" of a position is one number, mixed from the token and the previous number, which is read from the cache
through the block table. The next token is the last number modulo the vocabulary. Wrong content in any slot changes the
output, so equal outputs mean that every read had the right content.
"""

from collections.abc import Iterable
from typing import Any, Literal

from engine.cache.block_groups import one_group
from engine.cache.kv_cache_manager import KVCacheManager
from engine.scheduling.scheduler import ScheduledSequence, Scheduler
from engine.scheduling.sequence import Sequence
from engine.trace.operations import Admit, Op, Preempt
from tests.unit.cache.replay import KV_BYTES_PER_TOKEN, Replay

VOCAB = 50
BEGIN = 17


def mix(before: int, token: int) -> int:
    return (before * 1_000_003 + token * 7_919 + 12_345) % 2_147_483_647


def reference(prompt: list[int], max_tokens: int, stop: int | None = None, offset: int = 0) -> list[int]:
    """Return the model's output without any cache. `offset` separates forks at their first token."""
    number, output = BEGIN, list[int]()
    for token in prompt:
        number = mix(number, token)
    while len(output) < max_tokens and (not output or output[-1] != stop):
        output.append((number + (offset if not output else 0)) % VOCAB)
        number = mix(number, output[-1])
    return output


class FakeEngine:
    """Engine with a fake model that checks the trace's state, the cache and the limits after each step."""

    def __init__(
        self,
        num_blocks: int = 16,
        block_size: int = 4,
        max_num_seqs: int = 8,
        max_num_batched_tokens: int = 64,
        enable_chunked_prefill: bool = True,
        policy: Literal["fcfs", "priority"] = "fcfs",
        recompute_all: bool = False,
        enable_prefix_caching: bool = True,
        swap_space: int | None = None,
        reserve_all: bool = False,
        reserve_full_isl: bool = False,
    ) -> None:
        """Recompute if `swap_space` is None. `reserve_all` reserves blocks as strategy `first_fit` does."""
        self.replay = Replay(num_blocks, block_size, swap_space or 0)
        emit = self.replay.pending.append
        caching = enable_prefix_caching and not recompute_all and not reserve_all
        plans = [plan._replace(contiguous=reserve_all) for plan in one_group(num_blocks)]
        self.manager = KVCacheManager(plans, block_size, caching, emit, swap_space or 0, [KV_BYTES_PER_TOKEN])
        self.scheduler = Scheduler(
            self.manager,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            enable_chunked_prefill=enable_chunked_prefill,
            policy=policy,
            recompute_all=recompute_all,
            reserve_all=reserve_all,
            reserve_full_isl=reserve_full_isl,
            preemption_mode="recompute" if swap_space is None else "swap",
            emit=emit,
        )
        self.max_num_seqs, self.budget, self.recompute_all = max_num_seqs, max_num_batched_tokens, recompute_all
        self.reserve_all = reserve_all
        self.store: dict[int, int] = {}  # slot -> number
        self.cpu_store: dict[int, int] = {}
        self.sequences: dict[int, Sequence] = {}
        self.offsets: dict[int, int] = {}  # difference of a fork's first token from its parent's
        self.stops: dict[int, int | None] = {}
        self.num_steps = 0

    def add(
        self,
        prompt: list[int],
        max_tokens: int = 4,
        priority: int = 0,
        salt: str | None = None,
        num_forks: int = 0,
        stop: int | None = None,
    ) -> int:
        """Queue a prompt and return its seq_id."""
        seq_id = len(self.sequences)
        sequence = Sequence(
            seq_id, f"r{seq_id}", list(prompt), len(prompt), max_tokens, priority, seq_id, salt, num_forks=num_forks
        )
        self.scheduler.add(sequence, [b"?"] * len(prompt), {})
        self.sequences[seq_id], self.offsets[seq_id], self.stops[seq_id] = sequence, 0, stop
        self.fold()
        return seq_id

    def step(self) -> list[Op]:
        """Schedule, run and sample one step, and return the operations."""
        batch = self.scheduler.schedule()
        assert batch, "a step makes progress while anything is unfinished"
        self._check_limits(batch)
        (moves,) = self.manager.take_moves()
        assert len({dst for _, dst in moves.copy}) == len(moves.copy)
        self._move(self.store, self.cpu_store, moves.swap_out)
        self._move(self.cpu_store, self.store, moves.swap_in)
        self._move(self.store, self.store, moves.copy)
        for item in batch:
            self._forward(item)
        self.scheduler.commit(batch)
        for sequence, _, _ in batch:
            if sequence.num_computed_tokens == sequence.num_tokens:
                self._sample(sequence)
        if self.recompute_all:
            self.scheduler.discard([s for s in self.scheduler.running if s.num_computed_tokens])
        self.num_steps += 1
        return self.fold()

    def run(self, limit: int = 2000) -> list[Op]:
        """Step until all sequences are finished, and return all operations."""
        ops: list[Op] = []
        for _ in range(limit):
            if not self.scheduler.has_unfinished:
                return ops
            ops += self.step()
        raise AssertionError(f"not finished after {limit} steps")

    def abort(self, seq_id: int) -> None:
        assert self.scheduler.abort(self.sequences[seq_id].request_id)
        self.fold()

    def output(self, seq_id: int) -> list[int]:
        sequence = self.sequences[seq_id]
        return sequence.token_ids[sequence.num_prompt_tokens :]

    def expected(self, seq_id: int) -> list[int]:
        sequence = self.sequences[seq_id]
        prompt = sequence.token_ids[: sequence.num_prompt_tokens]
        return reference(prompt, sequence.max_tokens, self.stops[seq_id], self.offsets[seq_id])

    def tables(self) -> dict[int, list[int]]:
        return {seq_id: tables[0] for seq_id, tables in self.manager.snapshot().block_tables.items()}

    def fold(self) -> list[Op]:
        """Replay the emitted operations, and compare tables, pool, memory, queues and sequences with live objects."""
        ops = self.replay.fold(self.manager)
        state = self.replay.state
        self.manager.tick(state.index + 1, self.num_steps)
        assert state.waiting == [s.seq_id for s in self.scheduler.waiting]
        assert state.running == [s.seq_id for s in self.scheduler.running]
        for seq_id, sequence in self.sequences.items():
            replayed = state.sequences[seq_id]
            assert (replayed.status, replayed.token_ids) == (sequence.status, sequence.token_ids)
            assert replayed.num_preemptions == sequence.num_preemptions
            assert replayed.num_cached_tokens == sequence.num_cached_tokens
            assert replayed.num_computed_tokens == sequence.num_computed_tokens
        memory = self.manager.memory()
        if self.reserve_all:
            for tables in self.manager.snapshot().block_tables.values():
                assert tables[0] == list(range(tables[0][0], tables[0][0] + len(tables[0]))), (
                    "reserved blocks are contiguous"
                )
        else:  # paging wastes less than one block for each sequence
            assert memory.slots_wasted <= len(state.running) * (memory.block_size - 1)
        return ops

    def _move(self, source: dict[int, int], target: dict[int, int], pairs: list[tuple[int, int]]) -> None:
        size = self.manager.block_size
        target.update({dst * size + i: source.get(src * size + i, -1) for src, dst in pairs for i in range(size)})

    def _forward(self, item: ScheduledSequence) -> None:
        sequence, start, num_tokens = item
        number = self.store[self._slot(sequence, start - 1)] if start else BEGIN
        for position in range(start, start + num_tokens):
            number = self.store[self._slot(sequence, position)] = mix(number, sequence.token_ids[position])

    def _slot(self, sequence: Sequence, position: int) -> int:
        [table], size = self.manager.block_tables(sequence.seq_id), self.manager.block_size
        return table[position // size] * size + position % size

    def _sample(self, sequence: Sequence) -> None:
        first = sequence.num_tokens == sequence.num_prompt_tokens
        family = [sequence]
        if first and sequence.num_forks:
            for offset in range(1, sequence.num_forks + 1):
                child = self.scheduler.fork(sequence, len(self.sequences), f"{sequence.request_id}.{offset}")
                self.sequences[child.seq_id], self.offsets[child.seq_id] = child, offset
                self.stops[child.seq_id] = self.stops[sequence.seq_id]
                family.append(child)
        for member in family:
            last = self.store[self._slot(member, member.num_tokens - 1)]
            token = (last + (self.offsets[member.seq_id] if first else 0)) % VOCAB
            self.scheduler.append_token(member, token)
            if token == self.stops[member.seq_id]:
                self.scheduler.finish(member, "stop", str(token))
            elif member.num_tokens - member.num_prompt_tokens == member.max_tokens:
                self.scheduler.finish(member, "length")

    def _check_limits(self, batch: list[ScheduledSequence]) -> None:
        num_tokens = sum(item.num_tokens for item in batch)
        assert all(item.num_tokens > 0 and item.sequence.status == "running" for item in batch)
        assert len({item.sequence.seq_id for item in batch}) == len(batch)
        assert num_tokens <= self.budget or (self.recompute_all and len(batch) == 1)
        assert len(self.scheduler.running) <= self.max_num_seqs
        pending = self.replay.pending
        assert not (of_type(pending, Preempt) and of_type(pending, Admit)), "a step that preempts admits no sequence"
        if self.recompute_all:
            assert not of_type(pending, Preempt)


def of_type(ops: Iterable[Op], kind: type[Any]) -> list[Any]:
    """Return the operations of one kind."""
    return [op for op in ops if isinstance(op, kind)]


def names(ops: Iterable[Op]) -> list[str]:
    """Return the kinds of operations, in order."""
    return [type(op).__name__.lower() for op in ops]


def facts(ops: Iterable[Op], kind: type[Any], *fields: str) -> list[tuple[Any, ...]]:
    """Return some fields of the operations of one kind."""
    return [tuple(getattr(op, f) for f in fields) for op in of_type(ops, kind)]
