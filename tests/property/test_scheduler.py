"""For any pool, budget and policy, each request that is scheduled around an exact model finishes with the output of
that model without a cache.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.unit.scheduling.fake_engine import FakeEngine

PREFIXES = [[], [1] * 8, [1, 1, 1, 1, 2, 2, 2, 2], [3] * 5]
MAX_PROMPT, MAX_TOKENS = 12, 8
LONGEST = MAX_PROMPT + MAX_TOKENS - 1  # slots


class SchedulerMachine(RuleBasedStateMachine):
    """Machine that adds and aborts requests between steps. `FakeEngine` compares the trace's state in each step."""

    @initialize(
        block_size=st.sampled_from([1, 2, 3, 4, 4, 32]),
        spare_blocks=st.integers(0, 3),
        max_num_seqs=st.sampled_from([4, 2, 3, 6]),
        budget=st.sampled_from([40, 1, 4, 9, 40]),
        mode=st.sampled_from(["chunked", "chunked", "chunked", "whole", "none", "first_fit"]),
        policy=st.sampled_from(["fcfs", "priority"]),
        enable_prefix_caching=st.sampled_from([True, True, False]),
        swap_space=st.sampled_from([None, None, 2, 20]),
        reserve_full_isl=st.booleans(),
    )
    def begin(
        self,
        block_size: int,
        spare_blocks: int,
        max_num_seqs: int,
        budget: int,
        mode: str,
        policy: str,
        enable_prefix_caching: bool,
        swap_space: int | None,
        reserve_full_isl: bool,
    ) -> None:
        self.shares = mode != "first_fit"  # first_fit reserves one piece per sequence
        self.engine = FakeEngine(
            num_blocks=-(-LONGEST // block_size) + spare_blocks,
            block_size=block_size,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max(budget, LONGEST) if mode == "whole" else budget,
            enable_chunked_prefill=mode != "whole",
            policy="priority" if policy == "priority" else "fcfs",
            recompute_all=mode == "none",
            reserve_all=mode == "first_fit",
            enable_prefix_caching=enable_prefix_caching,
            swap_space=swap_space,
            reserve_full_isl=reserve_full_isl,
        )

    @rule(
        prefix=st.sampled_from(PREFIXES),
        suffix=st.lists(st.integers(0, 3), min_size=1, max_size=4),
        max_tokens=st.integers(1, MAX_TOKENS),
        priority=st.integers(0, 2),
        salt=st.sampled_from([None, None, "a"]),
        num_forks=st.sampled_from([0, 0, 0, 1]),
        stop=st.sampled_from([None, 7, 11]),
    )
    def add(
        self,
        prefix: list[int],
        suffix: list[int],
        max_tokens: int,
        priority: int,
        salt: str | None,
        num_forks: int,
        stop: int | None,
    ) -> None:
        self.engine.add([*prefix, *suffix], max_tokens, priority, salt, num_forks if self.shares else 0, stop)

    @rule(size=st.integers(2, 4), length=st.integers(1, MAX_PROMPT), priorities=st.permutations(range(4)))
    def add_several(self, size: int, length: int, priorities: list[int]) -> None:
        """Submit different prompts that grow to their maximum length and preempt each other in a small pool."""
        for i in range(size):
            self.engine.add([4 + i] * length, MAX_TOKENS, priorities[i])

    @precondition(lambda self: self.engine.scheduler.has_unfinished)
    @rule(times=st.integers(1, 4))
    def step(self, times: int) -> None:
        for _ in range(times):
            if self.engine.scheduler.has_unfinished:
                self.engine.step()

    @precondition(lambda self: self.engine.scheduler.has_unfinished)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        scheduler = self.engine.scheduler
        sequence = data.draw(st.sampled_from([*scheduler.running, *scheduler.waiting]))
        self.engine.abort(sequence.seq_id)

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        self.engine.run()
        assert self.engine.manager.memory().blocks_held == 0 and not self.engine.manager.memory().swap_blocks_held
        assert not self.engine.manager.prefixes.chains
        for seq_id, replayed in self.engine.replay.state.sequences.items():
            output, expected = self.engine.output(seq_id), self.engine.expected(seq_id)
            assert replayed.status == "finished"
            if replayed.finish_reason == "abort":
                assert output == expected[: len(output)]
            else:
                assert output == expected


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(
    max_examples=120, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
