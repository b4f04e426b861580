"""Asynchronous front of a synchronous engine for many clients: the counterpart of vLLM's AsyncLLMEngine.

    any thread      `submit`: enqueue a call
    engine thread   `tend`, between two steps: move calls through the fair queue into the engine's queue, abort;
                    `took`: pass a record to the hub thread
    hub thread      `_deliver`: apply the record to its calls; `leave`: abandon a call

The engine's own queue stays short, so that the fair queue decides the order of clients as late as possible.
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

from app.ground.errors import INTERNAL_ERROR, AppError
from app.ground.settings import Policy
from app.models.engine_face import EngineLike
from app.openai.call import Call, Choice, SubRequest
from app.openai.errors import ApiError, from_app_error
from app.openai.fair_queue import FairQueue, Full
from app.openai.streams import Streams
from app.session.answers import ApiStatus
from engine.cluster.router import RejectedError
from engine.config import SamplingParams
from engine.requests.request_spec import RequestError
from engine.trace.disagg_ids import plain_id
from engine.trace.operations import Admit, Cache, Finish, Fork, Lost, Rank, Submit
from engine.trace.records import StepRecord

logger = logging.getLogger(__name__)
AHEAD = 4  # requests in the engine's queue in addition to those that it can run at once
ACCEPT_SECONDS = 0.002  # maximum time for accepting arrived calls before the next step
# Maximum seconds for which the engine's thread releases the interpreter to the hub thread, which has first tokens to
# write. Otherwise the engine's thread holds it until the next forward pass, for some milliseconds. Not after steps of
# more than HUB_MAX_BATCH sequences, since nearly every one of these has a first token and would wait.
HUB_SECONDS = 0.001
HUB_MAX_BATCH = 16
RATE_SECONDS = 30.0  # window in which finished requests are counted, for Retry-After
MAX_RETRY = 60  # seconds
CALL_OPERATIONS = frozenset((Submit, Fork, Admit, Cache, Finish, Rank, Lost))  # operations that change a call


class EnginePrompt(Struct, frozen=True, kw_only=True):
    """Prompt for the engine; implements `app.models.engine_face.Prompt`."""

    text: list[int]
    request_id: str
    priority: int
    cache_salt: str | None
    client: str
    waited: float = 0.0
    after_steps: int = 0


class AsyncEngine:
    """Implements `app.session.request_source.RequestSource` for one session."""

    def __init__(
        self, call_hub: Callable[[Callable[[], None]], None], wake: Callable[[], None], max_waiting: int
    ) -> None:
        """`call_hub`: runs a function on the hub thread. `wake`: wakes the engine thread, which then calls `tend`."""
        self._call_hub, self._wake = call_hub, wake
        self._queue: FairQueue[SubRequest] = FairQueue(max_waiting)  # engine thread only
        self._arrived: deque[tuple[Call, Policy]] = deque()
        self._leaving: deque[SubRequest] = deque()
        self._session_error: AppError | None = None  # why the session has ended; None: it has not
        self._left_waiting = 0  # sequences still waiting after the last step
        self._calls: set[Call] = set()  # calls from `submit` until they end or are abandoned
        # on the hub thread only, like the following
        self._sub_requests: dict[str, SubRequest] = {}  # by request id
        self._of_sequence: dict[int, tuple[SubRequest, Choice]] = {}
        self._of_prefill: dict[int, SubRequest] = {}  # by the sequence that prefills it for another instance
        self._instance_of: dict[int, int] = {}  # by sequence
        self._first_sent = threading.Event()
        self._streams = Streams(on_urgent_sent=self._first_sent.set)
        self._ended: deque[float] = deque(maxlen=1024)  # monotonic times at which requests ended

    # On any thread

    def submit(self, call: Call, policy: Policy) -> None:
        """Enqueue a call. The fields of `call` show its progress."""
        self._calls.add(call)
        self._arrived.append((call, policy))
        self._wake()
        if self._session_error is not None:  # no `tend` follows
            self.failed(self._session_error)

    @property
    def num_active(self) -> int:
        return len(self._calls)

    @property
    def has_news(self) -> bool:
        return bool(self._arrived or self._leaving or len(self._queue))

    @property
    def has_more(self) -> bool:
        return bool(self._arrived)

    def status(self) -> ApiStatus:
        return {"waiting": self._queue.waiting(), "active": len(self._calls)}

    # On the engine thread

    def tend(self, engine: EngineLike, may_enter: bool) -> None:
        while self._leaving:
            sub_request = self._leaving.popleft()
            if not self._queue.remove(sub_request.call.client, sub_request):
                engine.abort(sub_request.request_id)
        if may_enter:
            self._submit_queued(engine)
        until = time.monotonic() + ACCEPT_SECONDS
        while self._arrived and time.monotonic() < until:
            self._enqueue(engine, *self._arrived.popleft())
            if may_enter:  # after each call; otherwise the client's queue could be full while the engine has room
                self._submit_queued(engine)

    def took(self, record: StepRecord, num_waiting: int) -> None:
        if record.kind == "step":
            self._left_waiting = num_waiting
        self._first_sent.clear()
        self._call_hub(partial(self._deliver_or_fail, record))
        if len(record.batch) <= HUB_MAX_BATCH and any(one.samples and one.phase == "prefill" for one in record.batch):
            self._first_sent.wait(HUB_SECONDS)

    def begun(self) -> None:
        self._call_hub(self._forget_sequences)  # sequence ids begin at 0 again

    def failed(self, refusal: AppError) -> None:
        if refusal.code == "unknown_theater":
            self._session_error = refusal
        waiting = self._queue.clear()
        while self._arrived:
            waiting += self._arrived.popleft()[0].sub_requests
        self._call_hub(partial(self._fail_all, from_app_error(refusal), waiting))

    def _enqueue(self, engine: EngineLike, call: Call, policy: Policy) -> None:
        """Check a call, and put all of its prompts or none into the fair queue."""
        try:
            for sub_request in call.sub_requests:
                sub_request.sampling = _sampling_that_fits(engine, sub_request, policy)
            if call.request.priority and engine.config.scheduling_policy != "priority":
                raise ApiError("priority needs a server with --scheduling-policy priority", "priority")
            queued: list[SubRequest] = []
            try:
                for sub_request in call.sub_requests:
                    self._queue.put(call.client, sub_request, policy.max_waiting, call.request.priority)
                    queued.append(sub_request)
            except Full as error:
                for sub_request in queued:
                    self._queue.remove(call.client, sub_request)
                raise self._too_many(str(error)) from error
        except ApiError as error:
            self._call_hub(partial(call.fail, error))
        except ValueError as error:  # ConfigError, RequestError
            self._call_hub(partial(call.fail, call.request.refusal(error)))
        else:
            self._call_hub(partial(self._register, call))

    def _submit_queued(self, engine: EngineLike) -> None:
        if not len(self._queue):
            return
        running, waiting = engine.queue_lengths()
        places = 0 if self._left_waiting else engine.config.num_places - running
        for _ in range(places + AHEAD - waiting):
            if not len(self._queue):
                return
            sub_request = self._queue.take()
            prompt = _engine_prompt(sub_request, time.monotonic() - sub_request.call.arrived_at)
            try:
                engine.send([prompt], sub_request.sampling)
            except RejectedError as error:
                self._call_hub(partial(self._fail, sub_request, self._too_many(str(error))))
            except ValueError as error:  # it was valid on arrival, but a run with other settings has started
                self._call_hub(partial(self._fail, sub_request, sub_request.call.request.refusal(error)))

    def _too_many(self, sentence: str) -> ApiError:
        now = time.monotonic()
        recent = sum(now - at < RATE_SECONDS for at in tuple(self._ended))
        seconds = math.ceil(len(self._queue) * RATE_SECONDS / recent) if recent else MAX_RETRY
        retry_after = min(max(1, seconds), MAX_RETRY)
        return ApiError(sentence, status=429, code="rate_limit_exceeded", retry_after=retry_after)

    # On the hub thread

    def _forget_sequences(self) -> None:
        self._of_sequence.clear()
        self._of_prefill.clear()
        self._instance_of.clear()

    def leave(self, call: Call) -> None:
        """Abandon a call: abort its unfinished requests."""
        call.is_closed = True
        self._calls.discard(call)
        for sub_request in call.sub_requests:
            if self._sub_requests.pop(sub_request.request_id, None) is not None:
                self._leaving.append(sub_request)
        if self._leaving:
            self._wake()

    def _register(self, call: Call) -> None:
        for sub_request in call.sub_requests:
            self._sub_requests[sub_request.request_id] = sub_request
        if call.is_closed:  # while it was enqueued
            self.leave(call)

    def _deliver_or_fail(self, record: StepRecord) -> None:
        """Deliver a record. If that raises, fail every open call, so that no client waits forever."""
        try:
            self._deliver(record)
        except Exception:
            logger.exception("delivering record %d", record.index)
            for call in {sub_request.call for sub_request in self._sub_requests.values()}:
                call.fail(ApiError(INTERNAL_ERROR, status=500))
                self.leave(call)
                call.is_closed = False  # `leave` set it, but the client is connected and gets the error

    def _deliver(self, record: StepRecord) -> None:
        """Apply a record to its calls: submissions, forks, admissions, cached blocks, tokens, finished sequences."""
        ends: list[Finish | Rank] = []
        updated: dict[Call, bool] = {}  # whether the update is urgent
        for op in record.ops:
            if type(op) not in CALL_OPERATIONS:
                continue
            if isinstance(op, (Submit, Fork)):
                sub_request = self._sub_requests.get(plain_id(op.request_id))
                if sub_request is not None:
                    self._instance_of[op.seq_id] = record.instance
                    if isinstance(op, Submit) and op.kv_role == "kv_producer":
                        self._of_prefill[op.seq_id] = sub_request
                    else:
                        self._of_sequence[op.seq_id] = (sub_request, sub_request.add_choice(op.seq_id))
                    if sub_request.record is None:
                        sub_request.record = record.index
                        updated[sub_request.call] = True
            elif isinstance(op, Admit):
                found = self._of_sequence.get(op.seq_id)
                admitted = found[0] if found else self._of_prefill.get(op.seq_id)
                if admitted is not None and not admitted.is_admitted:
                    admitted.is_admitted = True
                    admitted.num_cached_tokens = op.num_cached_tokens + op.num_external_tokens
            elif isinstance(op, Cache):
                found = self._of_sequence.get(op.seq_id)
                if (sub_request := found[0] if found else self._of_prefill.get(op.seq_id)) is not None:
                    findable = (op.logical + 1) * len(op.token_ids)
                    if sub_request.num_findable_tokens < findable <= len(sub_request.prompt.token_ids):
                        sub_request.num_findable_tokens = findable
            elif isinstance(op, (Finish, Rank)):
                ends.append(op)
            elif isinstance(op, Lost):
                ends += self._aborts_of_instance(record.instance)
        for scored in record.prompt_logprobs:
            if (found := self._of_sequence.get(scored.seq_id)) is not None:
                found[0].prompt_logprobs.append(scored)
        for output in record.outputs:
            if (found := self._of_sequence.get(output.seq_id)) is not None:
                sub_request, choice = found
                choice.outputs.append(output)
                choice.num_tokens += 1
                sub_request.call.changed[choice] = sub_request
                updated.setdefault(sub_request.call, choice.num_tokens == 1)
        ranks = [op for op in ends if isinstance(op, Rank)]
        for rank in ranks:
            sub_request = self._sub_requests.get(rank.request_id)
            if sub_request is not None and sub_request.count > sub_request.call.request.n:
                sub_request.ranked = [sub_request.of_sequence[seq_id] for seq_id in rank.seq_ids]
        for end in ends:
            if isinstance(end, Finish):
                self._instance_of.pop(end.seq_id, None)
                sub_request = self._of_prefill.pop(end.seq_id, None)
                if sub_request is not None and end.reason == "abort":
                    self._fail(sub_request, _abort_error(end))
                    updated[sub_request.call] = True
            if isinstance(end, Finish) and (found := self._of_sequence.pop(end.seq_id, None)) is not None:
                self._finish(*found, end)
                updated[found[0].call] = True
        self._streams.notify(updated)

    def _aborts_of_instance(self, instance: int) -> list[Finish]:
        """Return an abort for each sequence of a lost instance. Prompts that it prefilled for others are recomputed."""
        lost = [seq_id for seq_id, at in self._instance_of.items() if at == instance]
        for seq_id in lost:
            self._of_prefill.pop(seq_id, None)
        reason = "the instance that served this request has ended; send the request again"
        return [Finish(seq_id=seq_id, reason="abort", detail=reason) for seq_id in lost]

    def _finish(self, sub_request: SubRequest, choice: Choice, end: Finish) -> None:
        call = sub_request.call
        sub_request.num_unfinished -= 1
        if end.reason == "abort":
            call.fail(_abort_error(end))
        choice.finish_reason, choice.stopped_by = end.reason, end.detail
        call.changed[choice] = sub_request
        if not sub_request.num_unfinished:
            self._ended.append(time.monotonic())
            if self._sub_requests.pop(sub_request.request_id, None) is not None:
                call.finish_sub_request()
            if call.is_done:
                self._calls.discard(call)

    def _fail(self, sub_request: SubRequest, error: ApiError) -> None:
        sub_request.call.fail(error)
        self.leave(sub_request.call)

    def _fail_all(self, error: ApiError, waiting: list[SubRequest]) -> None:
        for sub_request in [*self._sub_requests.values(), *waiting]:
            sub_request.call.fail(error)
            self._calls.discard(sub_request.call)
        self._sub_requests.clear()
        self._forget_sequences()


def _abort_error(end: Finish) -> ApiError:
    message = end.detail or "the request was aborted on the page"
    return ApiError(message, status=500 if end.detail else 409, code="aborted")


def _sampling_that_fits(engine: EngineLike, sub_request: SubRequest, policy: Policy) -> SamplingParams:
    """Return the checked sampling parameters of a prompt. If max_tokens is not set, the smaller of the default and the
    client's limit applies; if that does not fit into the context, as many tokens as fit.

    Raises:
        ValueError: as `engine.submit`.
    """
    request, prompts = sub_request.call.request, [_engine_prompt(sub_request, 0.0)]
    requested = request.sampling
    limits = [limit for limit in (request.default_tokens, policy.max_tokens) if limit is not None]
    if requested.max_tokens is None and limits:
        found = replace(requested, max_tokens=min(limits))
        try:
            engine.check(prompts, found)
        except RequestError as error:
            if error.field != "max_tokens":
                raise
        else:
            return found
    engine.check(prompts, requested)
    return requested


def _engine_prompt(sub_request: SubRequest, waited: float) -> EnginePrompt:
    request = sub_request.call.request
    return EnginePrompt(
        text=sub_request.prompt.token_ids,
        request_id=sub_request.request_id,
        priority=request.priority,
        cache_salt=request.cache_salt,
        client=sub_request.call.client,
        waited=waited,
    )
