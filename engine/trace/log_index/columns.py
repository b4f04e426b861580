"""Growing columns in which a few rows change later, and the differences between their versions.

A log index is updated by differences, so the cost of an update does not grow with the run.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

C = TypeVar("C", bound=Struct)  # its lists are the columns; its other fields do not change


class Patch(Struct, Generic[C], frozen=True, array_like=True):
    """Difference between two versions of columns."""

    added: C  # entries to append to each column
    rows: list[int]  # earlier rows that have changed
    changed: C  # new entries of these rows in the changing columns; other columns are empty


class Growing(Generic[C]):
    """Columns that track their changes since the last `take`."""

    def __init__(self, columns: C, changing: tuple[str, ...]) -> None:
        """Track `columns`. `changing`: columns of equal length whose entries may change."""
        self.columns = columns
        self._changing = changing
        self._lengths = dict.fromkeys((name for name, _ in _lists(columns)), 0)  # lengths at the last `take`
        self._num_taken = 0  # rows of the changing columns at the last `take`
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


def apply_patch(columns: C, patch: Patch[C]) -> None:
    """Apply a patch to the columns.

    Raises:
        IndexError: the patch is for another version of the columns.
    """
    for name in columns.__struct_fields__:
        column, added = getattr(columns, name), getattr(patch.added, name)
        if not isinstance(column, list):
            setattr(columns, name, added)
            continue
        for row, value in zip(patch.rows, getattr(patch.changed, name), strict=False):
            column[row] = value
        column += added


def copy_columns(columns: C) -> C:
    """Return an independent copy."""
    return type(columns)(
        **{
            name: list(value) if isinstance(value := getattr(columns, name), list) else value
            for name in columns.__struct_fields__
        }
    )


def _lists(columns: Struct) -> list[tuple[str, list[object]]]:
    found = ((name, getattr(columns, name)) for name in columns.__struct_fields__)
    return [(name, column) for name, column in found if isinstance(column, list)]
