"""A hit needs the blocks of all groups of layers, and operations name blocks by the trace's ids."""

from engine.cache.attention_span import AttentionSpan, RetentionPolicy, WindowPolicy
from engine.cache.block_groups import Demands, plan_groups
from engine.trace.operations import RELEASED, Release, Share
from tests.unit.cache.replay import CacheRun

PROMPT = [1, 2, 3, 4, 5, 6, 7]


def hybrid(num_blocks: int) -> CacheRun:
    """Blocks of 2; one group keeps everything, the other the last 4 positions."""
    return CacheRun(num_blocks, 2, swap_space=4, beside=[RetentionPolicy(4, 0, "window")])


def test_each_group_has_a_table_and_releases_its_own_blocks() -> None:
    run = hybrid(6)
    run.run(0, PROMPT)
    assert run.manager.snapshot().block_tables[0] == [[0, 1, 2, 3], [RELEASED, RELEASED, 8, 9]]
    ops = run.append(0, 8)
    assert ops is not None and not [op for op in ops if isinstance(op, Release)]
    ops = run.append(0, 9)
    assert ops is not None and [(op.block_id, op.logical) for op in ops if isinstance(op, Release)] == [(8, 2)]
    memory = run.manager.memory()
    assert (memory.num_blocks, memory.blocks_held) == (12, 5 + 2)


def test_a_hybrid_hit_shares_all_full_blocks_and_the_window() -> None:
    run = hybrid(8)
    run.run(0, PROMPT)
    run.submit(1, [*PROMPT[:6], 9])
    match = run.admit(1)
    assert match is not None and match.num_tokens == 6 and match.block_ids == [0, 1, 2, 9, 10]
    run.promise(1, 7)
    assert [op.block_id for op in run.fold() if isinstance(op, Share)] == [0, 1, 2, 9, 10]


def test_a_hit_needs_the_block_in_every_group() -> None:
    """Pools of 10. When the first sequence ends, the windowed group has released its block 0 long before its block 2,
    the
    other one last of all. Eight blocks for the second evict one hash in each: block 0 here, block 2 there. So a prompt
    that needs block 0 hits nothing, and the lookup names the evicted block, by the trace's id.
    """
    run = hybrid(10)
    run.run(0, PROMPT[:5])  # block 0 falls out of the window
    for token in PROMPT[5:]:
        run.append(0, token)  # and block 1 after it
    run.free(0)
    run.run(1, [9] * 16)
    run.submit(2, PROMPT[:5])
    match = run.manager.lookup(2, run.tokens[2])
    assert (match.num_tokens, match.verdict, match.block_ids) == (0, "miss", [])
    first = [run.manager.prefixes.chain(2, None).hash_at(i, run.tokens[2]) for i in range(2)]
    assert all(run.manager.groups[0].pool.find(block_hash) for block_hash in first), "the first group has both"
    why = run.manager.explain(2, run.tokens[2], None, 0)
    assert why.reason == "evicted" and why.lost is not None and why.lost.block_id == 10


def test_a_swap_happens_in_all_groups_or_in_none() -> None:
    run = CacheRun(6, 2, swap_space=3, beside=[RetentionPolicy(4, 0, "window")])
    run.run(0, PROMPT)
    before = run.manager.snapshot()
    assert run.manager.swap_out(0) is None and run.manager.snapshot() == before, "four blocks of the first, room for 3"


def test_layers_with_equal_spans_form_groups() -> None:
    reaches = [
        AttentionSpan(8),
        AttentionSpan(8),
        AttentionSpan(None),
        AttentionSpan(8),
        AttentionSpan(8),
        AttentionSpan(None),
    ]
    full, windowed = plan_groups(reaches, None, 100, 4, Demands(max_num_seqs=2, max_num_batched_tokens=16))
    assert (full.layers, full.retention, full.num_blocks) == ([2, 5], None, 100)
    # each sequence: 1 + ceil((1 + 8 - 2) / 4) = 3 blocks and one more for where a chunk begins; a step's tokens: 4
    assert (windowed.layers, windowed.retention, windowed.num_blocks) == (
        [0, 1, 3, 4],
        RetentionPolicy(8, 0, "window"),
        12,
    )
    [together] = plan_groups(reaches, None, 100, 4, Demands(2, 16), split=False)
    assert together.layers == list(range(6)) and together.retention is None and together.num_blocks == 100
    policy = WindowPolicy(8, 2)
    [alike] = plan_groups([AttentionSpan(8, 2)] * 3, policy, 100, 4, Demands(2, 16))
    assert alike.retention == RetentionPolicy(8, 2, "policy") and alike.num_blocks == 100, (
        "the only pool is as asked for"
    )
