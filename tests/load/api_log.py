"""Requests in a log of the API, for comparison with the clients' counts."""

from pathlib import Path

from msgspec import Struct

from engine.trace.log import TraceReader
from engine.trace.operations import Finish, Submit


class Logged(Struct, kw_only=True):
    """Sequence of the log. Times in seconds since the log began."""

    prompt_tokens: int
    arrival: float  # when the server had all of it
    first: float | None = None  # the end of the step that sampled its first token
    ended: float | None = None
    reason: str | None = None
    output_tokens: int = 0

    @property
    def ttft(self) -> float | None:
        """Return the time to the first token as `vllm:time_to_first_token_seconds` defines it."""
        return None if self.first is None else self.first - self.arrival


def logged_requests(path: Path) -> dict[str, Logged]:
    """Return the requests that have one sequence each, by request id."""
    found: dict[str, Logged] = {}
    of_sequence: dict[int, Logged] = {}
    with TraceReader(path) as log:
        for index in range(len(log)):
            record = log.record(index)
            at = record.timing.at
            for op in record.ops:
                if isinstance(op, Submit):
                    one = Logged(prompt_tokens=len(op.prompt_token_ids), arrival=at - op.waited)
                    found[op.request_id] = of_sequence[op.seq_id] = one
                elif isinstance(op, Finish):
                    of_sequence[op.seq_id].ended, of_sequence[op.seq_id].reason = at, op.reason
            for output in record.outputs:
                one = of_sequence[output.seq_id]
                one.first = at if one.first is None else one.first
                one.output_tokens += 1
    return found
