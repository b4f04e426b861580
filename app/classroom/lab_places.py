"""Labs of a class and the waiting queue for them."""

from __future__ import annotations

from app.classroom.answers import LabsWhy


class LabPlaces:
    """Labs of one class. Modified under the lock of `app/classroom/labs.py`; may be read on any thread."""

    def __init__(self) -> None:
        self.is_on = False
        self.max_labs = 0
        self.limit_reason: LabsWhy = {"by": "stage", "lab_bytes": 0, "free_bytes": 0, "step_seconds": None}
        self._runs: dict[str, str | None] = {}  # session by key of the seat; None: being created
        self._waiting: list[str] = []  # keys of seats; the first is next

    def keys(self) -> list[str]:
        """Return the keys of seats with a lab, including labs being created."""
        return list(self._runs)

    def runs(self) -> list[tuple[str, str]]:
        """Return the keys of seats with their labs."""
        return [(key, session) for key, session in list(self._runs.items()) if session is not None]

    def all_keys(self) -> list[str]:
        """Return the keys of seats that have a lab or wait for one."""
        return [*self._runs, *self._waiting]

    def queue(self) -> list[str]:
        """Return the keys of waiting seats; the first is next."""
        return list(self._waiting)

    def status_of(self, key: str) -> tuple[str | None, int | None]:
        """Return a seat's lab (None: it has none) and its position in the queue (None: it does not wait)."""
        waiting = self.queue()
        return self._runs.get(key), waiting.index(key) if key in waiting else None

    def wait(self, key: str) -> bool:
        """Add a seat to the queue. Returns False if it has a lab or already waits."""
        if key in self._runs or key in self._waiting:
            return False
        self._waiting.append(key)
        return True

    def leave(self, key: str) -> None:
        """Remove a seat from the queue."""
        if key in self._waiting:
            self._waiting.remove(key)

    def take_next(self, here: set[str]) -> str | None:
        """Assign a place to the first connected seat of the queue. Returns its key, if there is one."""
        key = next((one for one in self._waiting if one in here), None)
        if key is not None:
            self._waiting.remove(key)
            self._runs[key] = None
        return key

    def assign(self, key: str, session: str) -> bool:
        """Assign the run of a seat. Returns False if the seat has given up its place."""
        if key not in self._runs:
            return False
        self._runs[key] = session
        return True

    def drop(self, key: str) -> str | None:
        """Remove a seat from labs and queue. Returns its run, if it had one."""
        self.leave(key)
        return self._runs.pop(key, None)
