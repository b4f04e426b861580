"""Measured speed of an instance and its remaining work, to estimate the queueing time of a request."""

from __future__ import annotations

from collections import deque

from engine.trace.busy_time import EngineClock, step_seconds
from engine.trace.records import StepRecord
from engine.trace.request_account import Account

RECENT_STEPS = 32  # of each kind; older steps may reflect another load


class Pace:
    """Throughput of an instance, measured from its records."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Clear the measurements, because the instance has ended."""
        self._prefills: deque[tuple[int, float]] = deque(maxlen=RECENT_STEPS)  # prompt tokens, seconds of a step
        self._decodes: deque[float] = deque(maxlen=RECENT_STEPS)  # seconds of a step
        self._account = Account(EngineClock(is_shared=False), drop_rows=True)

    def note(self, record: StepRecord) -> None:
        """Add a record of the instance."""
        seconds = step_seconds(record.timing)
        if num_tokens := sum(len(entry.token_ids) for entry in record.batch if entry.phase == "prefill"):
            self._prefills.append((num_tokens, seconds))
        if any(entry.phase == "decode" for entry in record.batch):
            self._decodes.append(seconds)
        self._account.read(record)
        if record.kind == "lost":
            self.clear()

    @property
    def prefill_tokens_per_second(self) -> float | None:
        """Prompt tokens per second in steps with prefill, including their other work. None: not measured."""
        seconds = sum(took for _, took in self._prefills)
        return sum(tokens for tokens, _ in self._prefills) / seconds if seconds else None

    def seconds_until_slot(self, num_before: int, max_num_seqs: int) -> float:
        """Estimate the seconds until a sequence behind `num_before` others can run.

        Returns 0 if it can run at once, or if nothing is measured. Running sequences are assumed to generate
        `max_tokens` tokens; waiting sequences are not counted.
        """
        num_to_end = num_before + 1 - max_num_seqs
        running = [row for row in self._account.rows.values() if row.status == "running"]
        if num_to_end <= 0 or not self._decodes or not running:
            return 0.0
        left = sorted(row.request.max_tokens - row.num_output_tokens for row in running)
        return left[min(num_to_end, len(left)) - 1] * sum(self._decodes) / len(self._decodes)
