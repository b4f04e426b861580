"""Several steps asked for at once: done one at a time, so that other commands get their turn in between."""

from __future__ import annotations

from concurrent.futures import Future
from typing import NamedTuple


class Performed(NamedTuple):
    """What came of a `step` or `prefill`."""

    num_records: int  # in the log now
    performed: int  # steps


class StepJob:
    """A `step` or `prefill` under way. `future` is answered when it ends."""

    def __init__(self, count: int, expect: int | None, until_prefilled: bool) -> None:
        """`expect`: the number of records the client saw; nothing is done if there are more when its turn comes."""
        self.count = count
        self.expect = expect
        self.until_prefilled = until_prefilled
        self.performed = 0
        self.future: Future[Performed] = Future()

    def end(self, num_records: int) -> None:
        """Answer with what was performed."""
        self.future.set_result(Performed(num_records, self.performed))
