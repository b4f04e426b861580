"""Prefix cache of a long log after any record, as a tree of its largest branches.

A branch is a chain of contents with one child each and the same status: held by a sequence, cached but not held, or
evicted while successors are still cached.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from engine.trace.log_index.content_rows import BEGINS, ContentColumns
from engine.trace.log_index.log_index import LogIndex

Standing = Literal["held", "reusable", "gone"]
STANDINGS: tuple[Standing, ...] = ("gone", "reusable", "held")
NEVER = -1
Ints = NDArray[np.int64]


class Branch(Struct, frozen=True, kw_only=True):
    """Branch of the tree. Branches are after their parents in the list."""

    id: int  # row of its first content
    parent: int  # index of the parent branch in the list; -1: none
    level: int  # from 1
    begins: bool  # whether it begins a sequence; if not and there is no parent, the parent is unknown
    standing: Standing
    blocks: int  # number of contents of the branch
    tokens: int
    all_blocks: int  # number of cached contents of the branch and its descendants
    all_tokens: int
    held: int  # number of these contents that sequences hold
    used_in: int  # last record with an operation on one of them; -1: none
    first_in: int  # record in which its first content was computed or stored
    token_ids: list[int]  # first tokens
    text: str  # text of the first tokens, without undecodable bytes
    num_more: int  # number of omitted children


class Prefixes(Struct, frozen=True, kw_only=True):
    """Tree of one instance."""

    branches: list[Branch]
    num_more: int  # number of omitted root branches
    blocks: int  # number of cached contents
    tokens: int
    unnamed: int  # number of cached blocks whose content has no row


class _Tree:
    """Contents after a record, with totals over their descendants."""

    def __init__(self, columns: ContentColumns, content: Ints, held: NDArray[np.bool_], used: Ints) -> None:
        """Build the tree. `content`, `held`, `used`: row of the content, status and last use of each cached block."""
        size = len(columns.parent)
        self.parent = np.array(columns.parent, np.int64)
        self.num_tokens = np.array(columns.num_tokens, np.int64)
        is_cached = np.bincount(content, minlength=size) > 0
        is_held = np.bincount(content[held], minlength=size) > 0
        self.standing = is_cached.astype(np.int8) + is_held
        self.all_blocks = is_cached.astype(np.int64)
        self.all_tokens = self.all_blocks * self.num_tokens
        self.held = is_held.astype(np.int64)
        self.used = np.full(size, NEVER, np.int64)
        np.maximum.at(self.used, content, used)
        for row in _children_first(self.parent):
            parent = self.parent[row]
            if parent >= 0 and self.all_blocks[row]:
                self.all_blocks[parent] += self.all_blocks[row]
                self.all_tokens[parent] += self.all_tokens[row]
                self.held[parent] += self.held[row]
                self.used[parent] = max(self.used[parent], self.used[row])
        shown = np.flatnonzero(self.all_blocks)
        self.children: dict[int, list[int]] = {}
        for row in shown[self.parent[shown] >= 0].tolist():
            self.children.setdefault(int(self.parent[row]), []).append(row)
        self.roots: list[int] = shown[self.parent[shown] < 0].tolist()


def prefixes(
    log_index: LogIndex, record: int, max_branches: int, first_block: int = 0, end_block: int | None = None
) -> Prefixes:
    """Return the largest branches, in tokens, of the tree of blocks [first_block, end_block) after a record.

    Raises:
        IndexError, DerivedFileError: see `LogIndex.blocks_at` and `LogIndex.contents`.
    """
    rows = log_index.blocks_at(record)[first_block:end_block]
    cached = rows[rows["is_cached"] != 0]
    named = cached[cached["content"] >= 0]
    columns = log_index.contents
    tree = _Tree(columns, named["content"].astype(np.int64), named["ref_count"] > 0, named["used_in"].astype(np.int64))
    ties = count()
    queue = [(-int(tree.all_tokens[root]), next(ties), root, -1, 1) for root in tree.roots]
    heapq.heapify(queue)
    found: list[Branch] = []
    num_more: dict[int, int] = {}
    while queue and len(found) < max_branches:
        _, _, row, parent, level = heapq.heappop(queue)
        chain = [row]
        while (
            len(children := tree.children.get(chain[-1], [])) == 1 and tree.standing[children[0]] == tree.standing[row]
        ):
            chain.append(children[0])
        if parent >= 0:
            num_more[parent] -= 1
        index = len(found)
        num_more[index] = len(children)
        found.append(
            Branch(
                id=row,
                parent=parent,
                level=level,
                begins=columns.parent[row] == BEGINS,
                standing=STANDINGS[tree.standing[row]],
                blocks=len(chain),
                tokens=int(tree.num_tokens[chain].sum()),
                all_blocks=int(tree.all_blocks[row]),
                all_tokens=int(tree.all_tokens[row]),
                held=int(tree.held[row]),
                used_in=int(tree.used[row]),
                first_in=columns.first_in[row],
                token_ids=columns.token_ids[row],
                text=columns.text[row].decode("utf-8", "ignore"),
                num_more=0,
            )
        )
        for child in children:
            heapq.heappush(queue, (-int(tree.all_tokens[child]), next(ties), child, index, level + 1))
    return Prefixes(
        branches=_in_order(found, num_more),
        num_more=sum(parent < 0 for _, _, _, parent, _ in queue),
        blocks=int(tree.all_blocks[tree.roots].sum()),
        tokens=int(tree.all_tokens[tree.roots].sum()),
        unnamed=len(cached) - len(named),
    )


def _children_first(parent: Ints) -> list[int]:
    """Return the rows in an order in which each row is after its descendants."""
    if (parent < np.arange(len(parent))).all():  # always true for an engine's own log
        return list(range(len(parent) - 1, -1, -1))
    depth = [0] * len(parent)
    parents = parent.tolist()
    for row in range(len(parents)):
        path = []
        ancestor = row
        while ancestor >= 0 and not depth[ancestor]:
            path.append(ancestor)
            ancestor = parents[ancestor]
        base = depth[ancestor] if ancestor >= 0 else 0
        for distance, each in enumerate(reversed(path), 1):
            depth[each] = base + distance
    return sorted(range(len(parents)), key=lambda row: -depth[row])


def _in_order(found: list[Branch], num_more: dict[int, int]) -> list[Branch]:
    """Return the branches in depth-first order, the largest child first. Sets `parent` and `num_more`."""
    children: dict[int, list[int]] = {}
    for index, branch in enumerate(found):  # in descending order of size
        children.setdefault(branch.parent, []).append(index)
    new_index: dict[int, int] = {-1: -1}
    ordered: list[Branch] = []
    stack = list(reversed(children.get(-1, [])))
    while stack:
        index = stack.pop()
        branch = found[index]
        new_index[index] = len(ordered)
        fields = {name: getattr(branch, name) for name in Branch.__struct_fields__}
        ordered.append(Branch(**{**fields, "parent": new_index[branch.parent], "num_more": num_more[index]}))
        stack += reversed(children.get(index, []))
    return ordered
