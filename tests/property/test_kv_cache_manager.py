"""The cache manager is consistent under every allowed order of calls, on pools small enough to run out of blocks."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.cache.attention_span import RetentionPolicy, state_retention
from engine.trace.operations import RELEASED
from tests.unit.cache.replay import CacheRun

PREFIXES = [[], [1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 2, 2, 2, 2], [1, 1, 1]]


RETENTIONS = st.one_of(
    st.builds(RetentionPolicy, st.sampled_from([1, 2, 3, 5, 8]), st.just(0), st.just("window"), st.just(0)),
    st.builds(RetentionPolicy, st.sampled_from([1, 2, 5]), st.sampled_from([1, 3, 4]), st.just("policy"), st.just(0)),
)


class CacheMachine(RuleBasedStateMachine):
    """Machine whose sequences wait, run, grow, fork, are preempted, resume and finish.

    After each operation, all counts are checked and the trace's state is compared with the live objects.
    """

    def __init__(self) -> None:
        super().__init__()
        self.next_id = 0
        self.waiting: list[int] = []
        self.swapped: list[int] = []
        self.promised: dict[int, int] = {}  # seq_id -> end position of the tokens to write

    @initialize(
        num_blocks=st.integers(1, 10),
        block_size=st.sampled_from([1, 2, 3, 4, 4]),
        enable_prefix_caching=st.sampled_from([True, True, False]),
        swap_space=st.sampled_from([0, 2, 10]),
        retention=st.one_of(st.none(), RETENTIONS),
        other_groups=st.one_of(st.just([]), st.just([]), st.lists(RETENTIONS, min_size=1, max_size=2)),
        checkpoint=st.sampled_from([None, None, 1, 2, 3]),  # in blocks, of a group with states; None: no such group
    )
    def begin(
        self,
        num_blocks: int,
        block_size: int,
        enable_prefix_caching: bool,
        swap_space: int,
        retention: RetentionPolicy | None,
        other_groups: list[RetentionPolicy],
        checkpoint: int | None,
    ) -> None:
        states = [] if checkpoint is None else [state_retention(checkpoint * block_size)]
        self.run_ = CacheRun(
            num_blocks, block_size, enable_prefix_caching, swap_space, retention, other_groups + states
        )

    @property
    def running(self) -> list[int]:
        return list(self.run_.computed)

    def settled(self) -> list[int]:
        """Return the running sequences if no promise is pending, else none."""
        return [] if self.promised else self.running

    @precondition(lambda self: len(self.waiting) < 3)
    @rule(
        prefix=st.sampled_from(PREFIXES),
        suffix=st.lists(st.integers(0, 2), max_size=6),
        salt=st.sampled_from([None, None, None, "a"]),
    )
    def submit(self, prefix: list[int], suffix: list[int], salt: str | None) -> None:
        self.run_.submit(self.next_id, [*prefix, *suffix] or [0], salt)
        self.waiting.append(self.next_id)
        self.next_id += 1

    @precondition(lambda self: self.settled())
    @rule(data=st.data())
    def preempt(self, data: st.DataObject) -> None:
        """Preempt by swap, or by recomputation if the CPU store is full."""
        seq_id = data.draw(st.sampled_from(self.settled()))
        self.run_.manager.take_moves()
        self.run_.preempt(seq_id)
        (self.swapped if self.run_.manager.num_swapped_tokens(seq_id) else self.waiting).append(seq_id)

    @precondition(lambda self: self.swapped and not self.promised)
    @rule(data=st.data())
    def swap_in(self, data: st.DataObject) -> None:
        seq_id = data.draw(st.sampled_from(self.swapped))
        if self.run_.swap_in(seq_id):
            end = -(-self.run_.computed[seq_id] // self.run_.manager.block_size)
            for moves, table in zip(
                self.run_.manager.take_moves(), self.run_.manager.block_tables(seq_id), strict=True
            ):
                assert [block_id for _, block_id in moves.swap_in] == [i for i in table[:end] if i != RELEASED]
            self.run_.check_visible(seq_id)
            self.swapped.remove(seq_id)

    @precondition(lambda self: self.swapped)
    @rule(data=st.data())
    def abort_swapped(self, data: st.DataObject) -> None:
        seq_id = data.draw(st.sampled_from(self.swapped))
        self.run_.free(seq_id)
        self.swapped.remove(seq_id)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def admit(self, data: st.DataObject) -> None:
        """Admit a sequence. Several may be admitted before any of them writes, and share promised blocks. Some write
        nothing in this step, like sequences that await blocks of another instance.
        """
        seq_id = data.draw(st.sampled_from(self.waiting))
        num_tokens = data.draw(st.integers(1, len(self.run_.tokens[seq_id])))
        if self.run_.admit(seq_id, num_tokens) is not None:
            self.waiting.remove(seq_id)
            if data.draw(st.booleans()):
                self.promise(seq_id, max(num_tokens, self.run_.computed[seq_id] + 1))
        self.run_.fold()

    @precondition(lambda self: self.unfinished_prompts())
    @rule(data=st.data())
    def next_chunk(self, data: st.DataObject) -> None:
        seq_id = data.draw(st.sampled_from(self.unfinished_prompts()))
        end = data.draw(st.integers(self.run_.computed[seq_id] + 1, len(self.run_.tokens[seq_id])))
        if self.run_.manager.allocate(seq_id, end, "chunk"):
            self.run_.manager.take_moves()
            self.promise(seq_id, end)
        self.run_.fold()

    @precondition(lambda self: self.promised)
    @rule()
    def write(self) -> None:
        """Simulate the forward pass, in which all sequences write their promised tokens in the order of promises."""
        for seq_id, end in self.promised.items():
            self.run_.write(seq_id, end)
        for seq_id in self.promised:
            self.run_.release(seq_id)
        self.promised.clear()
        self.run_.fold()
        hashes = self.run_.manager.snapshot().block_hashes
        filled = self.run_.manager.snapshot().num_filled
        size = self.run_.manager.block_size
        assert all(n == size for n, h in zip(filled, hashes, strict=True) if h is not None), "cached blocks are full"

    @precondition(lambda self: self.grown())
    @rule(data=st.data(), tokens=st.lists(st.integers(0, 2), min_size=1, max_size=3))
    def append(self, data: st.DataObject, tokens: list[int]) -> None:
        seq_id = data.draw(st.sampled_from(self.grown()))
        for token in tokens:
            if self.run_.append(seq_id, token) is None:
                break
            self.run_.manager.take_moves()

    @precondition(lambda self: self.settled())
    @rule(data=st.data(), token=st.integers(0, 2))
    def fork(self, data: st.DataObject, token: int) -> None:
        parent = data.draw(st.sampled_from(self.settled()))
        self.run_.fork(parent, self.next_id)
        if parent in self.grown():
            self.run_.append(parent, token)
            self.run_.manager.take_moves()
        self.next_id += 1

    @precondition(lambda self: self.settled())
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        self.run_.free(data.draw(st.sampled_from(self.settled())))

    @precondition(lambda self: self.promised)
    @rule()
    def fail_step(self) -> None:
        """Simulate a failed forward pass by removing its sequences and those that rely on unwritten content."""
        relying = self.run_.manager.take_back([], [])
        self.run_.free(*{*self.promised, *relying})
        self.promised.clear()

    @invariant()
    def free_and_held_blocks_make_the_pool(self) -> None:
        if hasattr(self, "run_"):
            memory = self.run_.manager.memory()
            assert memory.blocks_held + memory.blocks_cached + memory.blocks_free == memory.num_blocks
            assert memory.tokens_held <= memory.blocks_held * memory.block_size

    def teardown(self) -> None:
        """Free all sequences and check that every block is free."""
        if hasattr(self, "run_"):
            self.run_.manager.take_back([], [])
            self.run_.free(*self.running, *self.swapped)
            queues = self.run_.manager.snapshot().free_queues
            assert sorted(i for queue in queues for i in queue) == list(range(len(self.run_.replay.state.blocks)))
            memory = self.run_.manager.memory()
            assert memory.tokens_logical == memory.swap_blocks_held == 0

    def promise(self, seq_id: int, end: int) -> None:
        self.run_.promise(seq_id, end)
        self.promised[seq_id] = end

    def unfinished_prompts(self) -> list[int]:
        unscheduled = [i for i in self.running if i not in self.promised]
        return [i for i in unscheduled if self.run_.computed[i] < len(self.run_.tokens[i])]

    def grown(self) -> list[int]:
        return [i for i in self.settled() if self.run_.computed[i] == len(self.run_.tokens[i])]


TestCacheManager = CacheMachine.TestCase
TestCacheManager.settings = settings(
    max_examples=100, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
