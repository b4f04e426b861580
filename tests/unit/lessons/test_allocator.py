"""Grading of a learner's list of operations by the engine's rules."""

import pytest

from app.lessons.allocator.block_manager import BlockMove
from app.lessons.allocator.exercise import Done, Exercise, Hashed, Task
from app.lessons.allocator.grading import Graded, grade
from engine.trace.records import BlockGroup
from engine.trace.state import Sequence, State, empty_state

TEXT = list(range(100, 120))


def state() -> State:
    """Return a state with blocks of 4 slots. Sequences 0 and 1 share block 0, which is full and hashed, and block 1,
    which is half full. Block 2 is free, 3 and 4 are free and hashed, and 4 has the prefix of the waiting sequence 2.
    Sequence 3 holds block 5.
    """
    found = empty_state(4, [BlockGroup(layers=[0], first_block=0, num_blocks=6, kv_bytes_per_token=1)])
    for block, tokens, refs, hashed in [
        (0, TEXT[:4], 2, True),
        (1, TEXT[4:6], 2, False),
        (3, [7, 7, 7, 7], 0, True),
        (4, [1, 2, 3, 4], 0, True),
        (5, [9, 9], 1, False),
    ]:
        one = found.blocks[block]
        one.token_ids, one.ref_count, one.block_hash = list(tokens), refs, b"#" if hashed else None
    found.free_queues = [[2, 3, 4]]
    tables = {0: [0, 1], 1: [0, 1], 3: [5]}
    texts = {0: TEXT[:7], 1: TEXT[:7], 2: [1, 2, 3, 4, 5], 3: [9, 9, 9]}
    for i, text in texts.items():
        found.sequences[i] = Sequence(
            seq_id=i,
            request_id=str(i),
            status="running" if i in tables else "waiting",
            token_ids=text,
            block_tables=[tables.get(i, [])],
        )
    return found


COPY = BlockMove(kind="copy", block=2, seq=0, source=1)
SHARE = BlockMove(kind="share", block=4, seq=2)
EVICT = BlockMove(kind="evict", block=3)
TAKE = BlockMove(kind="allocate", block=3, seq=2)
FREE = BlockMove(kind="free", block=5, seq=3)
ENGINE = [COPY, SHARE, EVICT, TAKE, FREE]


def exercise() -> Exercise:
    done = [Done(move=move, record=0, op=i) for i, move in enumerate(ENGINE)]
    return Exercise(tasks=[Task(kind="leave", step=1, seq=3)], done=[*done])


def graded(*moves: BlockMove) -> Graded:
    return grade(exercise(), state(), list(moves))


def test_the_engines_operations_are_graded_right() -> None:
    assert graded(*ENGINE).right
    assert graded(*ENGINE[:3]).missing == 2 and not graded(*ENGINE[:3]).right


@pytest.mark.parametrize(
    ("move", "why"),
    [
        (BlockMove(kind="allocate", block=0, seq=2), "in_use"),
        (BlockMove(kind="allocate", block=3, seq=2), "still_hashed"),
        (BlockMove(kind="allocate", block=2, seq=9), "nobody"),
        (BlockMove(kind="allocate", block=77, seq=2), "nobody"),
        (BlockMove(kind="share", block=1, seq=2), "no_hash"),
        (BlockMove(kind="share", block=3, seq=2), "other_tokens"),
        (BlockMove(kind="share", block=0, seq=1), "twice"),
        (BlockMove(kind="copy", block=2, seq=0, source=0), "full"),
        (BlockMove(kind="copy", block=2, seq=3, source=5), "alone"),
        (BlockMove(kind="copy", block=5, seq=0, source=1), "in_use"),
        (BlockMove(kind="copy", block=2, seq=0, source=5), "not_in_table"),
        (BlockMove(kind="free", block=1, seq=0), "still_read"),
        (BlockMove(kind="free", block=1, seq=3), "not_in_table"),
        (BlockMove(kind="evict", block=0), "in_use"),
        (BlockMove(kind="evict", block=2), "no_hash"),
    ],
)
def test_illegal_moves_are_explained(move: BlockMove, why: str) -> None:
    found = graded(move, *ENGINE)
    assert (found.verdicts[0].grade, found.verdicts[0].why) == ("illegal", why)
    assert [verdict.grade for verdict in found.verdicts[1:]] == ["right"] * 5 and not found.right


def test_the_last_token_is_never_shared() -> None:
    now = state()
    now.sequences[2].token_ids = [1, 2, 3, 4]
    found = grade(exercise(), now, [SHARE])
    assert found.verdicts[0].why == "last_token"


def test_valid_alternatives_are_graded_other() -> None:
    found = graded(COPY, SHARE, FREE, EVICT)
    assert [(v.grade, v.why) for v in found.verdicts[2:]] == [("other", "order"), ("other", "not_head")]
    needless = graded(COPY, SHARE, EVICT, TAKE, FREE, BlockMove(kind="allocate", block=5, seq=0))
    assert (needless.verdicts[-1].grade, needless.verdicts[-1].why) == ("other", "needless")


def test_after_another_choice_moves_are_graded_by_the_engines_policy() -> None:
    """The learner allocates the second free block first, then the head of the queue."""
    expected = [BlockMove(kind="allocate", block=block, seq=seq) for block, seq in ((2, 0), (3, 1))]
    found = Exercise(tasks=[], done=[Done(move=move, record=0, op=0) for move in expected])
    now = state()
    now.blocks[3].block_hash = None
    moves = [BlockMove(kind="allocate", block=3, seq=0), BlockMove(kind="allocate", block=2, seq=1)]
    verdicts = grade(found, now, moves).verdicts
    assert [(v.grade, v.why) for v in verdicts] == [("other", "not_head"), ("right", None)]


def test_a_block_hashed_during_the_exercise_is_freed_to_the_back_of_the_queue() -> None:
    done: list[Done | Hashed] = [Hashed(block=5, tokens=[9, 9, 9, 9]), Done(move=FREE, record=1, op=0)]
    take = Done(move=BlockMove(kind="allocate", block=2, seq=0), record=1, op=1)
    found = Exercise(tasks=[Task(kind="leave", step=1, seq=3)], done=[*done, take])
    assert grade(found, state(), [FREE, take.move]).right
    assert not grade(found, state(), [FREE, BlockMove(kind="allocate", block=5, seq=0)]).right


def test_an_operation_of_a_missing_sequence_is_illegal() -> None:
    """Evictions that name a missing sequence are refused, although an eviction needs no sequence."""
    found = graded(BlockMove(kind="evict", block=2, seq=99), BlockMove(kind="allocate", block=2, seq=99))
    assert [(v.grade, v.why) for v in found.verdicts] == [("illegal", "nobody")] * 2
