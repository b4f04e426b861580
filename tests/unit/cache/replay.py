"""Check of a KV cache manager against its trace: a replayed state applies every emitted operation."""

from collections.abc import Sequence

from engine.cache.attention_span import RetentionPolicy
from engine.cache.block_groups import GroupPlan
from engine.cache.kv_cache_manager import KVCacheManager
from engine.cache.prefix_cache import PrefixMatch
from engine.trace.apply import apply
from engine.trace.check_reasons import wrong_in_reasons
from engine.trace.operations import RELEASED, Admit, Finish, Op, Preempt, Sample, Submit
from engine.trace.records import BlockGroup, Output, StepRecord, Timing
from engine.trace.state import empty_state, memory_figures

KV_BYTES_PER_TOKEN = 64
STATE_BYTES = 1000


class Replay:
    """State that applies the operations emitted since the last `fold`."""

    def __init__(
        self, num_blocks: int, block_size: int, swap_space: int = 0, states: Sequence[bool] = (False,)
    ) -> None:
        """`states` gives, for each group, whether its blocks hold states."""
        self.pending: list[Op] = []
        groups = [
            BlockGroup(
                layers=[] if of_states else [i],
                first_block=i * num_blocks,
                num_blocks=num_blocks,
                kv_bytes_per_token=0 if of_states else KV_BYTES_PER_TOKEN,
                state_bytes=STATE_BYTES if of_states else 0,
            )
            for i, of_states in enumerate(states)
        ]
        self.state = empty_state(block_size, groups, swap_space)

    def fold(self, manager: KVCacheManager) -> list[Op]:
        """Apply pending operations as one record, compare the state with the manager, and return the operations."""
        ops, self.pending[:] = list(self.pending), []
        index, memory = self.state.index + 1, manager.memory()
        outputs = [
            Output(seq_id=op.seq_id, token_id=op.token_id, token_bytes=b"?", text="?", logprob=0.0, top=[])
            for op in ops
            if isinstance(op, Sample)
        ]
        record = StepRecord(
            index=index, kind="step", step=index, ops=ops, outputs=outputs, timing=Timing(at=0), memory=memory
        )
        apply(self.state, record)
        assert not list(wrong_in_reasons(record))
        manager.check_integrity()
        live, blocks = manager.snapshot(), self.state.blocks
        tables = {i: s.block_tables for i, s in self.state.sequences.items() if any(s.block_tables)}
        assert live.block_tables == tables
        assert live.ref_counts == [b.ref_count for b in blocks]
        assert live.block_hashes == [b.block_hash for b in blocks]
        assert live.num_filled == [len(b.token_ids) for b in blocks]
        assert live.free_queues == self.state.free_queues
        cpu_tables = {i: s.cpu_block_table for i, s in self.state.sequences.items() if s.cpu_block_table}
        assert live.cpu_block_tables == cpu_tables
        assert memory == memory_figures(self.state)
        return ops


class CacheRun:
    """Manager that is driven call by call and checked against its trace after each call."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        enable_prefix_caching: bool = True,
        swap_space: int = 0,
        retention: RetentionPolicy | None = None,
        other_groups: Sequence[RetentionPolicy] = (),
    ) -> None:
        """`other_groups` are the policies of further groups of layers, each with a pool of the same size."""
        policies = (retention, *other_groups)
        kinds = [policy is not None and policy.checkpoint > 0 for policy in policies]
        self.replay = Replay(num_blocks, block_size, swap_space, kinds)
        plans = [
            GroupPlan(
                [] if of_states else [index],
                frozenset(),
                policy,
                num_blocks,
                index * num_blocks,
                state_bytes=STATE_BYTES if of_states else 0,
            )
            for index, (policy, of_states) in enumerate(zip(policies, kinds, strict=True))
        ]
        self.manager = KVCacheManager(
            plans,
            block_size,
            enable_prefix_caching,
            self.replay.pending.append,
            swap_space,
            [KV_BYTES_PER_TOKEN] * len(plans),
        )
        self.tokens: dict[int, list[int]] = {}
        self.computed: dict[int, int] = {}
        self.salts: dict[int, str | None] = {}

    def fold(self) -> list[Op]:
        return self.replay.fold(self.manager)

    def table(self, seq_id: int, group: int = 0) -> list[int]:
        return self.manager.block_tables(seq_id)[group]

    def submit(self, seq_id: int, tokens: list[int], salt: str | None = None) -> None:
        self.tokens[seq_id], self.salts[seq_id] = list(tokens), salt
        position = len(self.replay.state.waiting)
        self.replay.pending.append(
            Submit(
                seq_id=seq_id,
                queue_position=position,
                request_id=str(seq_id),
                prompt_token_ids=list(tokens),
                prompt_token_bytes=[b"?"] * len(tokens),
                max_tokens=99,
            )
        )
        self.fold()

    def admit(self, seq_id: int, num_tokens: int | None = None) -> PrefixMatch | None:
        """Look up and allocate the first `num_tokens` tokens (None: all). Return None without room."""
        tokens, salt = self.tokens[seq_id], self.salts[seq_id]
        match: PrefixMatch = self.manager.lookup(seq_id, tokens, salt)
        end = max(num_tokens or len(tokens), match.num_tokens + 1)
        if not self.manager.demand(seq_id, end, match.hits).fits:
            before = self.manager.snapshot()
            assert not self.manager.allocate(seq_id, end, "admission", match.hits)
            assert self.manager.snapshot() == before and not self.replay.pending
            return None
        self.replay.pending.append(Admit(seq_id=seq_id, num_cached_tokens=match.num_tokens, resumed=False))
        assert self.manager.allocate(seq_id, end, "admission", match.hits)
        self.computed[seq_id] = match.num_tokens
        return match

    def promise(self, seq_id: int, num_tokens: int) -> None:
        self.manager.cache_blocks(seq_id, self.tokens[seq_id], num_tokens, self.salts[seq_id])

    def write(self, seq_id: int, num_tokens: int) -> None:
        """Write up to position `num_tokens`."""
        self.manager.write(seq_id, self.computed[seq_id], num_tokens - self.computed[seq_id])
        self.computed[seq_id] = num_tokens

    def release(self, seq_id: int) -> None:
        """Release blocks that later queries do not attend to, and check that the others remain."""
        self.manager.release([seq_id])
        self.check_visible(seq_id)

    def check_visible(self, seq_id: int) -> None:
        """Check that every table has exactly the blocks that the next queries can attend to."""
        size = self.manager.block_size
        for group in self.manager.groups:
            retention = group.retention
            oldest = 0 if retention is None else self.computed[seq_id] - max(retention.window, 2) + 1
            for logical, block_id in enumerate(self.table(seq_id, group.index)):
                if retention is not None and retention.checkpoint and logical * size >= self.computed[seq_id]:
                    break  # a step does not fill every block with a state
                in_window = (logical + 1) * size > oldest
                visible = in_window or (retention is not None and logical * size < retention.sinks)
                assert (block_id != RELEASED) == visible, (seq_id, logical)

    def run(self, seq_id: int, tokens: list[int], salt: str | None = None) -> PrefixMatch:
        """Submit, admit and compute a prompt."""
        self.submit(seq_id, tokens, salt)
        match = self.admit(seq_id)
        assert match is not None
        self.promise(seq_id, len(tokens))
        self.write(seq_id, len(tokens))
        self.release(seq_id)
        self.fold()
        return match

    def append(self, seq_id: int, token: int) -> list[Op] | None:
        """Sample a token and compute it. Return None without room."""
        self.replay.pending.append(Sample(seq_id=seq_id, token_id=token))
        self.tokens[seq_id].append(token)
        self.fold()
        end = len(self.tokens[seq_id])
        if not self.manager.allocate(seq_id, end, "append"):
            assert not self.replay.pending
            return None
        self.promise(seq_id, end)
        self.write(seq_id, end)
        self.release(seq_id)
        return self.fold()

    def fork(self, parent: int, child: int) -> None:
        self.manager.fork(parent, child, str(child))
        self.tokens[child] = list(self.tokens[parent])
        self.computed[child], self.salts[child] = self.computed[parent], self.salts[parent]
        self.fold()

    def preempt(self, seq_id: int) -> None:
        """Preempt by swap if the CPU store has room, else by recomputation, and requeue at the front."""
        moved = self.manager.swap_out(seq_id) if self.computed[seq_id] else None
        if moved is None:
            self.manager.free(seq_id, "preempt")
        self.replay.pending.append(
            Preempt(
                seq_id=seq_id,
                queue_position=0,
                mode="recompute" if moved is None else "swap",
                for_seq_id=seq_id,
                num_computed_tokens=self.computed.pop(seq_id),
            )
        )
        self.fold()

    def swap_in(self, seq_id: int) -> bool:
        """Swap in with room for one more token. Return False without room."""
        swapped = self.manager.num_swapped_tokens(seq_id)
        end = min(swapped + 1, len(self.tokens[seq_id]))
        if not self.manager.demand(seq_id, end).fits:
            assert not self.manager.swap_in(seq_id, end) and not self.replay.pending
            return False
        self.replay.pending.append(Admit(seq_id=seq_id, num_cached_tokens=0, num_swapped_tokens=swapped, resumed=True))
        assert self.manager.swap_in(seq_id, end)
        self.computed[seq_id] = swapped
        self.fold()
        return True

    def free(self, *seq_ids: int) -> list[Op]:
        """Finish the sequences and return the operations."""
        for seq_id in seq_ids:
            self.manager.free(seq_id, "finish")
            self.manager.forget(seq_id)
            self.replay.pending.append(Finish(seq_id=seq_id, reason="stop"))
            del self.tokens[seq_id], self.salts[seq_id]
            self.computed.pop(seq_id, None)  # absent for a waiting sequence
        return self.fold()
