"""Id namespace of an engine that shares one log with others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.cache.block_groups import GroupPlan


class IdNamespace(NamedTuple):
    """First ids of an engine, so that no two engines of one log share an id.

    Blocks are numbered across the engines as across the groups of layers of one; so are blocks of the CPU store.
    Sequence ids are interleaved: of n engines each takes every n-th id.
    """

    first_block: int = 0
    first_cpu_block: int = 0
    first_seq_id: int = 0
    seq_id_stride: int = 1
    began: float | None = None  # when the common log did, by `time.perf_counter`; None: now

    def plans(self, groups: Sequence[GroupPlan]) -> list[GroupPlan]:
        """Groups of layers with the ids that they have here."""
        return [
            plan._replace(first_block=plan.first_block + self.first_block, first_cpu_block=self.first_cpu_block)
            for plan in groups
        ]


SINGLE = IdNamespace()
