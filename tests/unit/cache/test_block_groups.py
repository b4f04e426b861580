"""A hit needs the blocks of all groups of layers, and operations name blocks by the trace's ids."""

from engine.cache.attention_span import AttentionSpan, RetentionPolicy, WindowPolicy
from engine.cache.block_groups import Demands, plan_groups
from engine.trace.operations import RELEASED, Release, Share
from tests.unit.cache.replay import CacheRun

PROMPT = [1, 2, 3, 4, 5, 6, 7]


def hybrid(num_blocks: int) -> CacheRun:
    """Return a run with blocks of 2 in a full group and a group with a window of 4 positions."""
    return CacheRun(num_blocks, 2, swap_space=4, other_groups=[RetentionPolicy(4, 0, "window")])


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
    """Each group has 10 blocks. The windowed group frees its block 0 first, and the full group frees its block 0 last.
    The second sequence needs eight blocks and evicts one hash in each group: block 0 of the windowed group, block 2 of
    the full one. A prompt that needs block 0 hits nothing, and the lookup names the evicted block by the trace's id.
    """
    run = hybrid(10)
    run.run(0, PROMPT[:5])  # the windowed group releases block 0
    for token in PROMPT[5:]:
        run.append(0, token)  # the windowed group releases block 1
    run.free(0)
    run.run(1, [9] * 16)
    run.submit(2, PROMPT[:5])
    match = run.manager.lookup(2, run.tokens[2])
    assert (match.num_tokens, match.verdict, match.block_ids) == (0, "miss", [])
    first = [run.manager.prefixes.chain(2, None).hash_at(i, run.tokens[2]) for i in range(2)]
    assert all(run.manager.groups[0].pool.find(block_hash) for block_hash in first), "the first group has both"
    why = run.manager.explain(2, run.tokens[2], None, 0)
    assert why.reason == "evicted" and why.lost is not None and why.lost.block_id == 10


def test_a_swap_out_without_room_for_all_groups_changes_nothing() -> None:
    run = CacheRun(6, 2, swap_space=3, other_groups=[RetentionPolicy(4, 0, "window")])
    run.run(0, PROMPT)
    before = run.manager.snapshot()
    assert run.manager.swap_out(0) is None and run.manager.snapshot() == before, "four blocks do not fit into three"


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
    # a sequence takes 1 + ceil((1 + 8 - 2) / 4) = 3 blocks and one for a chunk's offset, the tokens of a step take 4
    assert (windowed.layers, windowed.retention, windowed.num_blocks) == (
        [0, 1, 3, 4],
        RetentionPolicy(8, 0, "window"),
        12,
    )
    [together] = plan_groups(reaches, None, 100, 4, Demands(2, 16), split=False)
    assert together.layers == list(range(6)) and together.retention is None and together.num_blocks == 100
    policy = WindowPolicy(8, 2)
    [single] = plan_groups([AttentionSpan(8, 2)] * 3, policy, 100, 4, Demands(2, 16))
    assert single.retention == RetentionPolicy(8, 2, "policy") and single.num_blocks == 100, "the requested size"
