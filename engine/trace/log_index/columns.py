"""Growing columns with a few rows that change later, and the difference since the last read.

A log index is updated by differences, so neither writing it nor reading it again slows down as a run grows.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

C = TypeVar("C", bound=Struct)  # of lists, a column each; what else it has stays as it is


class Patch(Struct, Generic[C], frozen=True, array_like=True):
    """Difference between two versions of columns."""

    added: C  # entries at the end of each
    rows: list[int]  # earlier rows of which something has changed
    changed: C  # their entries, of the columns that change; the others are empty here


class Growing(Generic[C]):
    """Columns, and what of them is new."""

    def __init__(self, columns: C, changing: tuple[str, ...]) -> None:
        """`changing`: the columns whose entries may change; they have the same number of rows."""
        self.columns = columns
        self._changing = changing
        self._lengths = dict.fromkeys((name for name, _ in _lists(columns)), 0)  # that were taken
        self._num_taken = 0  # rows of those that change
        self._changed: set[int] = set()

    def change(self, row: int) -> None:
        """Mark a row as changed."""
        if row < self._num_taken:
            self._changed.add(row)

    def take(self) -> Patch[C]:
        """Return the difference since the last call."""
        rows, kind = sorted(self._changed), type(self.columns)
        constants = {name: getattr(self.columns, name) for name in kind.__struct_fields__ if name not in self._lengths}
        added = {name: column[self._lengths[name] :] for name, column in _lists(self.columns)}
        changed = {name: [getattr(self.columns, name)[row] for row in rows] for name in self._changing}
        self._lengths = {name: len(column) for name, column in _lists(self.columns)}
        self._num_taken = max((self._lengths[name] for name in self._changing), default=0)
        self._changed.clear()
        return Patch(kind(**constants, **added), rows, kind(**changed))


def put_patch(columns: C, patch: Patch[C]) -> None:
    """The columns become what they were when the patch was taken.

    Raises:
        IndexError: they are not those that it followed.
    """
    for name in columns.__struct_fields__:
        mine, added = getattr(columns, name), getattr(patch.added, name)
        if not isinstance(mine, list):
            setattr(columns, name, added)
            continue
        for row, value in zip(patch.rows, getattr(patch.changed, name), strict=False):
            mine[row] = value
        mine += added


def copied(columns: C) -> C:
    """Columns of their own, that may grow."""
    return type(columns)(
        **{
            name: list(value) if isinstance(value := getattr(columns, name), list) else value
            for name in columns.__struct_fields__
        }
    )


def _lists(columns: Struct) -> list[tuple[str, list[object]]]:
    found = ((name, getattr(columns, name)) for name in columns.__struct_fields__)
    return [(name, column) for name, column in found if isinstance(column, list)]
