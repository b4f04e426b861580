"""Id namespace of an engine that shares a log with others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.cache.block_groups import GroupPlan


class IdNamespace(NamedTuple):
    """First ids of an engine, so that ids are unique among the engines of a log.

    Blocks, including those of the CPU store, are numbered consecutively over engines and groups of layers. Sequence ids
    are interleaved: each of n engines uses every n-th id.
    """

    first_block: int = 0
    first_cpu_block: int = 0
    first_seq_id: int = 0
    seq_id_stride: int = 1
    began: float | None = None  # start of the shared log, by `time.perf_counter`; None: now

    def plans(self, groups: Sequence[GroupPlan]) -> list[GroupPlan]:
        """Return the groups of layers with block ids of this namespace."""
        return [
            plan._replace(first_block=plan.first_block + self.first_block, first_cpu_block=self.first_cpu_block)
            for plan in groups
        ]


SINGLE = IdNamespace()
