"""What the guards say is found again as rules and numbers, from the sentences that the cache itself raises."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.cache.block_pool import BlockPool, IntegrityError
from engine.cache.block_table import check_tables
from engine.objections import objection
from engine.trace.records import Objection


def unknown_hash(pool: BlockPool) -> None:
    pool.blocks[0].block_hash = b"h"


def ref_count(pool: BlockPool) -> None:
    pool.blocks[0].ref_count = 3


@pytest.mark.parametrize(
    ("damage", "said", "counted"),
    [(unknown_hash, None, None), (ref_count, 3, 0)],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_a_sentence_of_the_check_has_its_rule(
    damage: Callable[[BlockPool], None], said: int | None, counted: int | None
) -> None:
    """Block 0 of two is held, and no table names it. (The guards' own sentences: see the museum's tests.)"""
    pool = BlockPool(2)
    pool.allocate()
    damage(pool)
    with pytest.raises(IntegrityError) as caught:
        pool.check_integrity()
        check_tables({}, pool, 4, {}, 0)
    text = str(caught.value)
    assert objection(text) == Objection(rule=damage.__name__, text=text, block_id=0, said=said, counted=counted)


def test_a_sentence_that_no_rule_knows_stays_as_it_is() -> None:
    text = "block 0 is shared: allocate must copy it before the write; and more"
    assert objection(text) == Objection(text=text)
