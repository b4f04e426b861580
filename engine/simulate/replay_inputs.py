"""Inputs of a run (arrivals and tokens), which determine all decisions of scheduler and cache.

Only arrivals, request parameters and tokens are loaded from the log, so a log of gigabytes needs memory only for these.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import Struct

from engine.config import SamplingParams
from engine.trace import codec
from engine.trace.limits import Int
from engine.trace.log import TraceReader
from engine.trace.observing import UNSAID
from engine.trace.operations import Adjust, Finish, FinishReason, Fork, Load, Op, Sample, Submit
from engine.trace.records import Header, RecordKind

TOKENS = "I"  # type code of arrays of token ids
KEY_TOKENS = 4  # number of leading prompt tokens by which ended requests are indexed
MAX_ENDED = 1024  # ended requests per index entry


class ReplayError(ValueError):
    """The log cannot be replayed. The message gives the reason in one sentence."""


class ComputedSpan(Struct, frozen=True, gc=False):
    """The fields of a `BatchEntry` that are needed: positions [start, context_len) of a sequence were computed."""

    seq_id: Int
    start: Int
    context_len: Int


class Decisions(Struct, frozen=True, gc=False):
    """The fields of a record that are read from a log or produced by a replay."""

    index: Int
    kind: RecordKind
    step: Int
    ops: list[Op] = []
    batch: list[ComputedSpan] = []


@dataclass(slots=True)
class LoggedSequence:
    """Sequence of the log: output tokens and finish reason (None: unfinished or aborted)."""

    token_ids: array[int] = field(default_factory=lambda: array(TOKENS))
    reason: FinishReason | None = None
    detail: str = ""


@dataclass(slots=True, eq=False)
class LoggedRequest:
    """Request of the log. `sequences`: in the order of forks."""

    request_id: str
    prompt: array[int]
    max_tokens: int
    priority: int
    cache_salt: str | None
    num_forks: int
    scores_prompt: bool  # whether prompt log probabilities are requested, so that no cached block is used
    sequences: list[LoggedSequence]
    submitted: int = 0  # step of the log
    ended: int = 0  # step in which the last sequence finished
    after: LoggedRequest | None = None  # previous turn, whose prompt and output are the beginning of this prompt


class Arrival(NamedTuple):
    """Record of an external command, after `step` steps."""

    kind: RecordKind
    step: int
    requests: list[LoggedRequest]
    max_tokens: int | None = None  # new value of an `adjust`


class Inputs(NamedTuple):
    """Inputs of the first `num_records` records of a log."""

    arrivals: list[Arrival]
    num_records: int
    num_steps: int
    is_complete: bool  # whether all requests are finished at the end


def read_decisions(log: TraceReader, count: int) -> Iterator[Decisions]:
    """Yield the needed fields of the first `count` records.

    Raises:
        TraceFormatError: a record is damaged.
    """
    for index in range(count):
        yield codec.decode(log.record_bytes(index), Decisions)


def check_replayable(header: Header) -> None:
    """Raise ReplayError if logs with this header cannot be replayed."""
    if header.observed is not None:
        raise ReplayError(f"{UNSAID}, so there is nothing to replay")
    if header.engine.get("private"):
        raise ReplayError("a private log does not contain the prompts, so it cannot be replayed")
    if header.instances:
        raise ReplayError("the log has several instances, whose decisions depend on each other")
    if header.engine.get("fault"):
        raise ReplayError("the log is of a run with an injected fault, which changes decisions")
    if header.engine.get("ablate"):
        raise ReplayError("the log is of a run with ablated heads or layers, whose block hashes differ")


def read_inputs(log: TraceReader, count: int, each: Callable[[Decisions], None]) -> Inputs:
    """Read the first `count` records and call `each` with each of them.

    Raises:
        ReplayError: the log cannot be replayed.
        TraceFormatError: a record is damaged.
    """
    check_replayable(log.header)
    found = _InputReader()
    num_steps = 0
    for record in read_decisions(log, count):
        try:
            found.read(record)
        except KeyError as error:
            raise ReplayError(f"record {record.index} refers to a sequence that is not in the log: {error}") from error
        num_steps = record.step
        each(record)
    if not any(arrival.kind == "submit" for arrival in found.arrivals):
        raise ReplayError("the log has no requests")
    return Inputs(found.arrivals, count, num_steps, not found.unfinished)


class _InputReader:
    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.unfinished: dict[int, tuple[LoggedRequest, LoggedSequence]] = {}  # unfinished sequences
        self._ended: dict[bytes, deque[tuple[LoggedRequest, LoggedSequence]]] = {}  # by the first tokens of the prompt

    def read(self, record: Decisions) -> None:
        requests: dict[int, LoggedRequest] = {}  # requests of the record by id()
        max_tokens = None
        for op in record.ops:
            match op:
                case Sample():
                    self.unfinished[op.seq_id][1].token_ids.append(op.token_id)
                case Submit():
                    one = _logged(op)
                    one.submitted, one.after = record.step, self._before(one.prompt)
                    self.unfinished[op.seq_id] = (one, one.sequences[0])
                    requests[id(one)] = one
                case Fork():
                    if op.reason == "beam":
                        place = f"record {record.index} forks a beam of {op.request_id!r}"
                        raise ReplayError(f"{place}; only the model decides which beams continue")
                    one, _ = self.unfinished[op.parent_seq_id]
                    one.sequences.append(LoggedSequence())
                    self.unfinished[op.seq_id] = (one, one.sequences[-1])
                case Finish():
                    one, logged = self.unfinished.pop(op.seq_id)
                    requests[id(one)] = one
                    if op.reason != "abort":
                        logged.reason, logged.detail = op.reason, op.detail
                        self._end(one, logged, record.step)
                case Adjust():
                    one, _ = self.unfinished[op.seq_ids[0]]
                    requests[id(one)], max_tokens = one, op.max_tokens
                case Load():
                    raise ReplayError(
                        f"in record {record.index} a block was loaded from outside the pool, whose contents are not in "
                        "the log"
                    )
                case _:
                    pass
        if record.kind != "step":
            self.arrivals.append(Arrival(record.kind, record.step, list(requests.values()), max_tokens))

    def _end(self, one: LoggedRequest, logged: LoggedSequence, step: int) -> None:
        if any(other is one for other, _ in self.unfinished.values()):
            return
        one.ended = step
        self._ended.setdefault(_key(one.prompt), deque(maxlen=MAX_ENDED)).append((one, logged))

    def _before(self, prompt: array[int]) -> LoggedRequest | None:
        """Return the previous turn of a prompt: the ended request whose tokens without the last begin the prompt."""
        found, longest = None, 0
        for one, logged in self._ended.get(_key(prompt), ()):
            begin = len(one.prompt)
            end = begin + len(logged.token_ids) - 1
            fits = begin < end and longest <= end < len(prompt)
            if fits and prompt[:begin] == one.prompt and prompt[begin:end] == logged.token_ids[:-1]:
                found, longest = one, end
        return found


def _key(tokens: array[int]) -> bytes:
    return tokens[:KEY_TOKENS].tobytes()


def _logged(op: Submit) -> LoggedRequest:
    sampling = op.sampling
    if sampling.get("use_beam_search"):
        raise ReplayError(f"request {op.request_id!r} is a beam search; only the model decides which beams continue")
    count = sampling.get("best_of") or sampling.get("n", SamplingParams().n)
    return LoggedRequest(
        request_id=op.request_id,
        prompt=array(TOKENS, op.prompt_token_ids),
        max_tokens=op.max_tokens,
        priority=op.priority,
        cache_salt=op.cache_salt,
        num_forks=count - 1 if isinstance(count, int) else 0,
        scores_prompt=sampling.get("prompt_logprobs") is not None and len(op.prompt_token_ids) > 1,
        sequences=[LoggedSequence()],
    )
