"""State of an HTTP request to the API: its prompts, the choices of each, and the greenlet that waits for them.

Used on the hub thread only. `AsyncEngine` updates it from the log's records. The greenlet of the connection sleeps
meanwhile and reads it when woken.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from gevent.event import Event

from app.openai.errors import ApiError
from app.openai.generated import Reader
from app.openai.request import ApiRequest, Prompt
from engine.trace.records import Output, PromptLogprob


class Choice:
    """Output sequence of a prompt."""

    def __init__(self, call: Call, index: int) -> None:
        """`index`: its position in the response."""
        self.index = index
        self.outputs: list[Output] = []  # not sent yet; all outputs if the response is not streamed
        self.num_tokens = 0
        self.num_characters = 0  # sent so far, for text offsets
        self.unfinished = b""  # bytes of an incomplete character whose tokens are sent
        reading = call.request.reading
        self.reader = None if reading is None else Reader(reading)
        self.has_started = False  # its first chunk has been sent
        self.finish_reason: str | None = None
        self.stopped_by = ""  # the stop string that ended it, or another detail of `Finish`
        self.is_final_sent = False  # its last chunk, with finish_reason, has been sent
        self.around: tuple[bytes, bytes] | None = None  # bytes around the text in events that differ only in it


class SubRequest:
    """Prompt of a call, submitted as one request of the engine."""

    def __init__(self, call: Call, prompt: Prompt, request_id: str, first_index: int, count: int) -> None:
        """`count`: number of sequences that will run for the prompt."""
        self.call, self.prompt, self.request_id = call, prompt, request_id
        self.first_index, self.count = first_index, count
        self.sampling = call.request.sampling
        self.record: int | None = None  # index of the record that submitted it
        self.num_cached_tokens = 0
        self.num_findable_tokens = 0  # leading tokens in full blocks that other requests can now hit
        self.is_admitted = False
        self.choices: list[Choice] = []  # in the order of their sequences
        self.unfinished = 0
        self.of_sequence: dict[int, Choice] = {}  # by sequence id, finished ones included
        self.ranked: list[Choice] = []  # best first, if more sequences ran than were requested
        self.prompt_logprobs: list[PromptLogprob] = []

    @property
    def response_choices(self) -> list[Choice]:
        """Choices of the response, in order."""
        n = self.call.request.n
        return (self.ranked or self.choices)[:n]

    def add_choice(self, seq_id: int) -> Choice:
        choice = self.of_sequence[seq_id] = Choice(self.call, self.first_index + len(self.choices))
        self.choices.append(choice)
        self.unfinished += 1
        return choice


class Call:
    """API call in progress. `wait` sleeps until the state in the fields changes; `wake` ends that sleep."""

    def __init__(
        self, request: ApiRequest, client: str, model: str, session_id: str, arrived_at: float, id_prefix: str = ""
    ) -> None:
        """`arrived_at`: monotonic time at which the request was complete; `id_prefix`: "" selects OpenAI's prefix."""
        prefix = id_prefix or ("chatcmpl-" if request.kind == "chat" else "cmpl-")
        self.id = prefix + secrets.token_hex(12)
        self.created = int(time.time())
        self.request, self.client, self.model, self.session_id = request, client, model, session_id
        self.arrived_at = arrived_at
        many = len(request.prompts) > 1
        self.sub_requests = [
            SubRequest(
                self, prompt, f"{self.id}-{i}" if many else self.id, i * request.n, request.sampling.num_sequences
            )
            for i, prompt in enumerate(request.prompts)
        ]
        self.changed: dict[Choice, SubRequest] = {}  # choices with output that is not sent yet
        self.error: ApiError | None = None
        self.is_closed = False  # its client has disconnected, or was answered
        self._unfinished = len(self.sub_requests)
        self._event: Event | None = None
        self.tell: Callable[[], bool] | None = None  # sends changes at once; False: the greenlet must

    @property
    def first_record(self) -> int | None:
        """Index of the record that submitted the first prompt; None while the prompt waits in the fair queue."""
        return self.sub_requests[0].record

    @property
    def is_done(self) -> bool:
        """Whether no further output follows."""
        return self.error is not None or self.is_closed or not self._unfinished

    @property
    def num_prompt_tokens(self) -> int:
        return sum(len(sub_request.prompt.token_ids) for sub_request in self.sub_requests)

    @property
    def num_cached_tokens(self) -> int:
        return sum(sub_request.num_cached_tokens for sub_request in self.sub_requests)

    @property
    def num_newly_cached_tokens(self) -> int:
        """Prompt tokens that missed the prefix cache and are in blocks that the next request can hit."""
        return sum(
            max(0, sub_request.num_findable_tokens - sub_request.num_cached_tokens) for sub_request in self.sub_requests
        )

    @property
    def num_output_tokens(self) -> int:
        if self.request.only_echo:
            return 0
        return sum(choice.num_tokens for sub_request in self.sub_requests for choice in sub_request.response_choices)

    def part_ended(self) -> None:
        self._unfinished -= 1

    def fail(self, error: ApiError) -> None:
        self.error = self.error or error
        self.wake()

    def news(self) -> None:
        """Send what has changed, or wake the greenlet that waits."""
        if self.tell is None or not self.tell():
            self.wake()

    def wake(self) -> None:
        """Wake the greenlet that waits."""
        if self._event is not None:
            self._event.set()

    def wait(self, until: float | None) -> None:
        """Wait until something changes, at most until the monotonic time `until` (None: no limit).

        Raises:
            TimeoutError: `until` has passed.
        """
        if self._event is None:
            self._event = Event()
        self._event.clear()
        left = None if until is None else until - time.monotonic()
        if left is not None and (left <= 0 or not self._event.wait(left)):
            raise TimeoutError
        if left is None:
            self._event.wait()
