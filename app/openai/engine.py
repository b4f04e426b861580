"""Many asynchronous clients on one synchronous engine: what vLLM calls AsyncLLMEngine.

    any thread      `ask`, `leave`: what clients want, put down
    engine thread   `tend`, between two steps: into the lanes, from the lanes into the engine's queue, aborts;
                    `took`: a record goes to the hub thread
    hub thread      `_deliver`: what the record says, to the calls that it is about

The engine's own queue is kept short, so that whose turn it is is decided here, between clients, as late as possible.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from app.ground.errors import AppError
from app.ground.settings import Policy
from app.models.engine_face import EngineLike
from app.openai.call import Call, Choice, Part
from app.openai.errors import ApiError, of_refusal
from app.openai.fair_queue import Full, Lanes
from app.openai.streams import Streams
from app.session.answers import ApiStatus
from engine.cluster.router import RejectedError
from engine.config import SamplingParams
from engine.requests.request_spec import RequestError
from engine.trace.disagg_ids import plain_id
from engine.trace.events import Admit, Cache, Finish, Fork, Lost, Rank, Submit
from engine.trace.records import StepRecord

logger = logging.getLogger(__name__)
AHEAD = 4  # requests in the engine's queue beyond those that it has places for
TENDING = 0.002  # seconds for which calls that arrive at once are taken in before the next step is looked after
# Seconds at most for which the engine's thread leaves the interpreter to the hub thread, which has first tokens to
# write: else it would hold it until the next forward pass, some milliseconds. Not after steps of more than FEW
# sequences: somebody's first token is in nearly each of them, and all would wait for it.
LEFT_TO_HUB = 0.001
FEW = 16
RATE_SECONDS = 30.0  # requests that ended in the last so many say how fast they end
LONGEST_RETRY = 60  # seconds
HEARD = frozenset((Submit, Fork, Admit, Cache, Finish, Rank, Lost))  # operations that a call is told of


class Ask(Struct, frozen=True, kw_only=True):
    """One prompt, as `app.models.engine_face.Prompt` has it."""

    text: list[int]
    request_id: str
    priority: int
    cache_salt: str | None
    client: str
    waited: float = 0.0
    after_steps: int = 0


class AsyncEngine:
    """Implements `app.session.source.Source` for one theater."""

    def __init__(
        self, call_hub: Callable[[Callable[[], None]], None], wake: Callable[[], None], most_waiting: int
    ) -> None:
        """`call_hub`: have it done on the hub thread; `wake`: have the engine thread look here."""
        self._call_hub, self._wake = call_hub, wake
        self._lanes: Lanes[Part] = Lanes(most_waiting)  # of the engine thread
        self._arrived: deque[tuple[Call, Policy]] = deque()
        self._leaving: deque[Part] = deque()
        self._over: AppError | None = None  # why nothing is computed any more
        self._left_waiting = 0  # sequences for which the last step had no room
        self._calls: set[Call] = set()  # from `ask` until they are over, or nobody waits for them
        self._parts: dict[str, Part] = {}  # by request id; of the hub thread, as what follows
        self._of_sequence: dict[int, tuple[Part, Choice]] = {}
        self._of_prefill: dict[int, Part] = {}  # by the sequence that computes its prompt for another instance
        self._instance_of: dict[int, int] = {}  # of those sequences
        self._first_told = threading.Event()
        self._streams = Streams(urgent_told=self._first_told.set)
        self._ended: deque[float] = deque(maxlen=1024)  # when requests did

    # From any thread

    def ask(self, call: Call, policy: Policy) -> None:
        """Have it answered: from now on `call` says what comes of it."""
        self._calls.add(call)
        self._arrived.append((call, policy))
        self._wake()
        if self._over is not None:  # it ended since: nobody looks at what arrives
            self.failed(self._over)

    @property
    def num_active(self) -> int:
        return len(self._calls)

    @property
    def has_news(self) -> bool:
        return bool(self._arrived or self._leaving or len(self._lanes))

    @property
    def has_more(self) -> bool:
        return bool(self._arrived)

    def status(self) -> ApiStatus:
        return {"waiting": self._lanes.waiting(), "active": len(self._calls)}

    # On the engine thread

    def tend(self, engine: EngineLike, may_enter: bool) -> None:
        while self._leaving:
            part = self._leaving.popleft()
            if not self._lanes.remove(part.call.client, part):
                engine.abort(part.request_id)
        if may_enter:
            self._let_in(engine)
        until = time.monotonic() + TENDING
        while self._arrived and time.monotonic() < until:
            self._take_in(engine, *self._arrived.popleft())
            if may_enter:  # after each, or a lane would be full of what there is room for
                self._let_in(engine)

    def took(self, record: StepRecord, num_waiting: int) -> None:
        if record.kind == "step":
            self._left_waiting = num_waiting
        self._first_told.clear()
        self._call_hub(partial(self._delivered, record))
        if len(record.batch) <= FEW and any(one.samples and one.phase == "prefill" for one in record.batch):
            self._first_told.wait(LEFT_TO_HUB)

    def begun(self) -> None:
        self._call_hub(self._forget_sequences)  # they are counted from 0 again

    def failed(self, refusal: AppError) -> None:
        if refusal.code == "unknown_theater":
            self._over = refusal
        waiting = self._lanes.clear()
        while self._arrived:
            waiting += self._arrived.popleft()[0].parts
        self._call_hub(partial(self._fail_all, of_refusal(refusal), waiting))

    def _take_in(self, engine: EngineLike, call: Call, policy: Policy) -> None:
        """Check a call as a whole, and put its prompts in their lane."""
        try:
            for part in call.parts:
                part.sampling = _sampling_that_fits(engine, part, policy)
            if call.asked.priority and engine.config.scheduling_policy != "priority":
                raise ApiError("priority needs a server with --scheduling-policy priority", "priority")
            taken: list[Part] = []
            try:
                for part in call.parts:
                    self._lanes.put(call.client, part, policy.max_waiting, call.asked.priority)
                    taken.append(part)
            except Full as error:
                for part in taken:
                    self._lanes.remove(call.client, part)
                raise self._too_many(str(error)) from error
        except ApiError as error:
            self._call_hub(partial(call.fail, error))
        except ValueError as error:  # ConfigError, RequestError
            self._call_hub(partial(call.fail, call.asked.refusal(error)))
        else:
            self._call_hub(partial(self._register, call))

    def _let_in(self, engine: EngineLike) -> None:
        if not len(self._lanes):
            return
        running, waiting = engine.queue_lengths()
        places = 0 if self._left_waiting else engine.config.num_places - running
        for _ in range(places + AHEAD - waiting):
            if not len(self._lanes):
                return
            part = self._lanes.take()
            asked = _ask(part, time.monotonic() - part.call.arrived_at)
            try:
                engine.send([asked], part.sampling)
            except RejectedError as error:
                self._call_hub(partial(self._fail, part, self._too_many(str(error))))
            except ValueError as error:  # it was good when it came: a run with other settings has begun
                self._call_hub(partial(self._fail, part, part.call.asked.refusal(error)))

    def _too_many(self, sentence: str) -> ApiError:
        now = time.monotonic()
        recent = sum(now - at < RATE_SECONDS for at in tuple(self._ended))
        seconds = math.ceil(len(self._lanes) * RATE_SECONDS / recent) if recent else LONGEST_RETRY
        retry_after = min(max(1, seconds), LONGEST_RETRY)
        return ApiError(sentence, status=429, code="rate_limit_exceeded", retry_after=retry_after)

    # On the hub thread

    def _forget_sequences(self) -> None:
        self._of_sequence.clear()
        self._of_prefill.clear()
        self._instance_of.clear()

    def leave(self, call: Call) -> None:
        """Nobody waits for it any more: what of it is not over is aborted."""
        call.is_gone = True
        self._calls.discard(call)
        for part in call.parts:
            if self._parts.pop(part.request_id, None) is not None:
                self._leaving.append(part)
        if self._leaving:
            self._wake()

    def _register(self, call: Call) -> None:
        for part in call.parts:
            self._parts[part.request_id] = part
        if call.is_gone:  # meanwhile
            self.leave(call)

    def _delivered(self, record: StepRecord) -> None:
        """Deliver a record. Nobody waits for ever for one that could not be."""
        try:
            self._deliver(record)
        except Exception:
            logger.exception("delivering record %d", record.index)
            for call in {part.call for part in self._parts.values()}:
                call.fail(ApiError("the server made a mistake; its terminal says more", status=500))
                self.leave(call)
                call.is_gone = False  # its client is there, and is told

    def _deliver(self, record: StepRecord) -> None:
        """What a record says: who was submitted, forked, admitted; tokens; who has ended."""
        ends: list[Finish | Rank] = []
        woken: dict[Call, bool] = {}  # and whether it may not wait
        for op in record.ops:
            if type(op) not in HEARD:  # most are not
                continue
            if isinstance(op, (Submit, Fork)):
                part = self._parts.get(plain_id(op.request_id))
                if part is not None:
                    self._instance_of[op.seq_id] = record.instance
                    if isinstance(op, Submit) and op.kv_role == "kv_producer":
                        self._of_prefill[op.seq_id] = part
                    else:
                        self._of_sequence[op.seq_id] = (part, part.add_choice(op.seq_id))
                    if part.record is None:
                        part.record = record.index
                        woken[part.call] = True
            elif isinstance(op, Admit):
                found = self._of_sequence.get(op.seq_id)
                admitted = found[0] if found else self._of_prefill.get(op.seq_id)
                if admitted is not None and not admitted.is_admitted:
                    admitted.is_admitted = True
                    admitted.num_cached_tokens = op.num_cached_tokens + op.num_external_tokens
            elif isinstance(op, Cache):
                found = self._of_sequence.get(op.seq_id)
                if (part := found[0] if found else self._of_prefill.get(op.seq_id)) is not None:
                    findable = (op.logical + 1) * len(op.token_ids)
                    if part.num_findable_tokens < findable <= len(part.prompt.token_ids):
                        part.num_findable_tokens = findable
            elif isinstance(op, (Finish, Rank)):
                ends.append(op)
            elif isinstance(op, Lost):
                ends += self._ended_with(record.instance)
        for scored in record.prompt_logprobs:
            if (found := self._of_sequence.get(scored.seq_id)) is not None:
                found[0].prompt_logprobs.append(scored)
        for output in record.outputs:
            if (found := self._of_sequence.get(output.seq_id)) is not None:
                part, choice = found
                choice.outputs.append(output)
                choice.num_tokens += 1
                part.call.changed[choice] = part
                woken.setdefault(part.call, choice.num_tokens == 1)
        ranks = [op for op in ends if isinstance(op, Rank)]
        for rank in ranks:
            part = self._parts.get(rank.request_id)
            if part is not None and part.count > part.call.asked.n:
                part.ranked = [part.of_sequence[seq_id] for seq_id in rank.seq_ids]
        for end in ends:
            if isinstance(end, Finish):
                self._instance_of.pop(end.seq_id, None)
                part = self._of_prefill.pop(end.seq_id, None)
                if part is not None and end.reason == "abort":
                    self._fail(part, _aborted(end))
                    woken[part.call] = True
            if isinstance(end, Finish) and (found := self._of_sequence.pop(end.seq_id, None)) is not None:
                self._finish(*found, end)
                woken[found[0].call] = True
        self._streams.tell(woken)

    def _ended_with(self, instance: int) -> list[Finish]:
        """What ends with an instance. A prompt that it computed for another one is computed again elsewhere."""
        gone = [seq_id for seq_id, at in self._instance_of.items() if at == instance]
        for seq_id in gone:
            self._of_prefill.pop(seq_id, None)
        why = "the instance that served it has ended; send it again"
        return [Finish(seq_id=seq_id, reason="abort", detail=why) for seq_id in gone]

    def _finish(self, part: Part, choice: Choice, end: Finish) -> None:
        call = part.call
        part.unfinished -= 1
        if end.reason == "abort":
            call.fail(_aborted(end))
        choice.finish_reason, choice.stopped_by = end.reason, end.detail
        call.changed[choice] = part
        if not part.unfinished:
            self._ended.append(time.monotonic())
            if self._parts.pop(part.request_id, None) is not None:
                call.part_ended()
            if call.is_done:
                self._calls.discard(call)

    def _fail(self, part: Part, error: ApiError) -> None:
        part.call.fail(error)
        self.leave(part.call)

    def _fail_all(self, error: ApiError, waiting: list[Part]) -> None:
        for part in [*self._parts.values(), *waiting]:
            part.call.fail(error)
            self._calls.discard(part.call)
        self._parts.clear()
        self._forget_sequences()


def _aborted(end: Finish) -> ApiError:
    why = end.detail or "the request was aborted on the page"
    return ApiError(why, status=500 if end.detail else 409, code="aborted")


def _sampling_that_fits(engine: EngineLike, part: Part, policy: Policy) -> SamplingParams:
    """The sampling parameters of a prompt, checked. One that comes without max_tokens gets the default and what its
    client may have at most, or as many as there is room for.

    Raises:
        ValueError: what `engine.submit` would.
    """
    asked, prompts = part.call.asked, [_ask(part, 0.0)]
    given = asked.sampling
    usual = [most for most in (asked.default_tokens, policy.max_tokens) if most is not None]
    if given.max_tokens is None and usual:
        found = replace(given, max_tokens=min(usual))
        try:
            engine.check(prompts, found)
        except RequestError as error:
            if error.field != "max_tokens":
                raise
        else:
            return found
    engine.check(prompts, given)
    return given


def _ask(part: Part, waited: float) -> Ask:
    asked = part.call.asked
    return Ask(
        text=part.prompt.token_ids,
        request_id=part.request_id,
        priority=asked.priority,
        cache_salt=asked.cache_salt,
        client=part.call.client,
        waited=waited,
    )
