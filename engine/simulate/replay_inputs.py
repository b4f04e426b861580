"""Inputs of a run, which determine all decisions of scheduler and cache: arrivals and tokens.

From the log only arrivals (in steps), parameters and tokens are loaded, so a log of gigabytes needs memory for its
tokens only.
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
KEY_TOKENS = 4  # leading prompt tokens by which ended requests are indexed
MAX_ENDED = 1024  # ended requests per index entry


class ReplayError(ValueError):
    """The log cannot be replayed; the message is one sentence."""


class Share(Struct, frozen=True, gc=False):
    """Part of a `BatchEntry` that is read: positions [start, context_len) of a sequence were computed."""

    seq_id: Int
    start: Int
    context_len: Int


class Decided(Struct, frozen=True, gc=False):
    """Part of a record that is read from a log or produced by a replay."""

    index: Int
    kind: RecordKind
    step: Int
    ops: list[Op] = []
    batch: list[Share] = []


@dataclass(slots=True)
class LoggedSequence:
    """Logged sequence: its tokens and finish reason (None: unfinished or aborted)."""

    token_ids: array[int] = field(default_factory=lambda: array(TOKENS))
    reason: FinishReason | None = None
    detail: str = ""


@dataclass(slots=True, eq=False)
class LoggedRequest:
    """Submitted request. `sequences`: its sequences in order of forking."""

    request_id: str
    prompt: array[int]
    max_tokens: int
    priority: int
    cache_salt: str | None
    num_forks: int
    scores_prompt: bool  # prompt log probabilities are requested, so no cached block is used
    sequences: list[LoggedSequence]
    came: int = 0  # step of the log in which it arrived; `ended`: in which its last sequence finished
    ended: int = 0
    after: LoggedRequest | None = None  # the previous turn: this prompt begins with its prompt and output


class Arrival(NamedTuple):
    """Record of an external command, after `step` steps."""

    kind: RecordKind
    step: int
    requests: list[LoggedRequest]
    max_tokens: int | None = None  # of an `adjust`: the new value


class Inputs(NamedTuple):
    """Inputs of the first `num_records` records of a log."""

    arrivals: list[Arrival]
    num_records: int
    num_steps: int
    is_complete: bool  # no unfinished request at the end


def decided(log: TraceReader, count: int) -> Iterator[Decided]:
    """Yield the first `count` records, reduced to what decisions depend on.

    Raises:
        TraceFormatError: a damaged record.
    """
    for index in range(count):
        yield codec.decode(log.record_bytes(index), Decided)


def check_replayable(header: Header) -> None:
    """Raise ReplayError if logs with this header cannot be replayed."""
    if header.observed is not None:
        raise ReplayError(f"{UNSAID}, so there is nothing to replay")
    if header.engine.get("private"):
        raise ReplayError("a private log does not contain the prompts, so it cannot be replayed")
    if header.instances:
        raise ReplayError("the log is of several instances: what each of them would do depends on the others")
    if header.engine.get("fault"):
        raise ReplayError("the log is of a run with a fault put in on purpose, which decides otherwise")
    if header.engine.get("ablate"):
        raise ReplayError("the log is of a run with heads or layers off, whose blocks have names of their own")


def read_inputs(log: TraceReader, count: int, each: Callable[[Decided], None]) -> Inputs:
    """Read the first `count` records; `each` is called with each of them.

    Raises:
        ReplayError: the log cannot be replayed.
        TraceFormatError: a damaged record.
    """
    check_replayable(log.header)
    found = _Reading()
    num_steps = 0
    for record in decided(log, count):
        try:
            found.read(record)
        except KeyError as error:
            raise ReplayError(
                f"record {record.index} is about a sequence that the log does not have: {error}"
            ) from error
        num_steps = record.step
        each(record)
    if not any(arrival.kind == "submit" for arrival in found.arrivals):
        raise ReplayError("no request came in this log")
    return Inputs(found.arrivals, count, num_steps, not found.of_seq)


class _Reading:
    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.of_seq: dict[int, tuple[LoggedRequest, LoggedSequence]] = {}  # unfinished sequences
        self._ended: dict[bytes, deque[tuple[LoggedRequest, LoggedSequence]]] = {}  # by the first tokens of the prompt

    def read(self, record: Decided) -> None:
        requests: dict[int, LoggedRequest] = {}  # by id(): requests of the record
        max_tokens = None
        for op in record.ops:
            match op:
                case Sample():
                    self.of_seq[op.seq_id][1].token_ids.append(op.token_id)
                case Submit():
                    one = _logged(op)
                    one.came, one.after = record.step, self._before(one.prompt)
                    self.of_seq[op.seq_id] = (one, one.sequences[0])
                    requests[id(one)] = one
                case Fork():
                    if op.reason == "beam":
                        where = f"record {record.index} forks a beam of {op.request_id!r}"
                        raise ReplayError(f"{where}: only the model decides which continue")
                    one, _ = self.of_seq[op.parent_seq_id]
                    one.sequences.append(LoggedSequence())
                    self.of_seq[op.seq_id] = (one, one.sequences[-1])
                case Finish():
                    one, logged = self.of_seq.pop(op.seq_id)
                    requests[id(one)] = one
                    if op.reason != "abort":
                        logged.reason, logged.detail = op.reason, op.detail
                        self._end(one, logged, record.step)
                case Adjust():
                    one, _ = self.of_seq[op.seq_ids[0]]
                    requests[id(one)], max_tokens = one, op.max_tokens
                case Load():
                    raise ReplayError(
                        f"in record {record.index} a block came from outside the pool, and the log does not say what "
                        "else lay there"
                    )
                case _:
                    pass
        if record.kind != "step":
            self.arrivals.append(Arrival(record.kind, record.step, list(requests.values()), max_tokens))

    def _end(self, one: LoggedRequest, logged: LoggedSequence, step: int) -> None:
        if any(other is one for other, _ in self.of_seq.values()):
            return
        one.ended = step
        self._ended.setdefault(_key(one.prompt), deque(maxlen=MAX_ENDED)).append((one, logged))

    def _before(self, prompt: array[int]) -> LoggedRequest | None:
        """Return the previous turn of a prompt: the prompt begins with all its tokens but the last."""
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
        raise ReplayError(f"request {op.request_id!r} is a beam search: only the model decides which beams continue")
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
