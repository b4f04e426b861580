"""State of an HTTP request to the API: its prompts, the choices of each, and the greenlet that waits for them.

Used on the hub thread only. `AsyncEngine` updates the state from the log's records. Meanwhile the connection's greenlet
sleeps; it reads the state when it is woken.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from gevent.event import Event

from app.openai.errors import ApiError
from app.openai.generated import OutputParser
from app.openai.request import ApiRequest, Prompt
from engine.trace.records import Output, PromptLogprob


class Choice:
    """Output sequence of a prompt."""

    def __init__(self, call: Call, index: int) -> None:
        """`index`: position in the response."""
        self.index = index
        self.outputs: list[Output] = []  # not sent yet; all outputs if the response is not streamed
        self.num_tokens = 0
        self.num_characters = 0  # sent so far, for text offsets
        self.unfinished = b""  # sent bytes of an incomplete character
        settings = call.request.parser_settings
        self.parser = None if settings is None else OutputParser(settings)
        self.has_started = False  # whether the first chunk has been sent
        self.finish_reason: str | None = None
        self.stopped_by = ""  # the matched stop string, or another detail of `Finish`
        self.is_final_sent = False  # whether the last chunk, with finish_reason, has been sent
        self.envelope: tuple[bytes, bytes] | None = None  # constant bytes before and after the text in each event


class SubRequest:
    """Prompt of a call, submitted as one request of the engine."""

    def __init__(self, call: Call, prompt: Prompt, request_id: str, first_index: int, count: int) -> None:
        """`count`: number of sequences for the prompt."""
        self.call, self.prompt, self.request_id = call, prompt, request_id
        self.first_index, self.count = first_index, count
        self.sampling = call.request.sampling
        self.record: int | None = None  # index of the record with its submission
        self.num_cached_tokens = 0
        self.num_findable_tokens = 0  # leading tokens in full blocks that other requests can now hit
        self.is_admitted = False
        self.choices: list[Choice] = []  # in the order of their sequences
        self.num_unfinished = 0
        self.of_sequence: dict[int, Choice] = {}  # by sequence id, with finished ones
        self.ranked: list[Choice] = []  # best first, if more sequences run than are returned
        self.prompt_logprobs: list[PromptLogprob] = []

    @property
    def response_choices(self) -> list[Choice]:
        """Choices of the response, in order."""
        n = self.call.request.n
        return (self.ranked or self.choices)[:n]

    def add_choice(self, seq_id: int) -> Choice:
        choice = self.of_sequence[seq_id] = Choice(self.call, self.first_index + len(self.choices))
        self.choices.append(choice)
        self.num_unfinished += 1
        return choice


class Call:
    """API call in progress. `wait` sleeps until the fields change; `wake` ends that sleep."""

    def __init__(
        self, request: ApiRequest, client: str, model: str, session_id: str, arrived_at: float, id_prefix: str = ""
    ) -> None:
        """`arrived_at`: monotonic time when the request was complete. `id_prefix`: "" selects OpenAI's prefix."""
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
        self.is_closed = False  # the client has disconnected, or has its response
        self._num_unfinished = len(self.sub_requests)
        self._event: Event | None = None
        self.send_now: Callable[[], bool] | None = None  # writes changes; False: the greenlet must write them

    @property
    def first_record(self) -> int | None:
        """Index of the record that submitted the first prompt; None while the prompt waits in the fair queue."""
        return self.sub_requests[0].record

    @property
    def is_done(self) -> bool:
        """Whether no further output follows."""
        return self.error is not None or self.is_closed or not self._num_unfinished

    @property
    def num_prompt_tokens(self) -> int:
        return sum(len(sub_request.prompt.token_ids) for sub_request in self.sub_requests)

    @property
    def num_cached_tokens(self) -> int:
        return sum(sub_request.num_cached_tokens for sub_request in self.sub_requests)

    @property
    def num_newly_cached_tokens(self) -> int:
        """Number of prompt tokens that missed the prefix cache and are now in blocks that the next request can hit."""
        return sum(
            max(0, sub_request.num_findable_tokens - sub_request.num_cached_tokens) for sub_request in self.sub_requests
        )

    @property
    def num_output_tokens(self) -> int:
        if self.request.only_echo:
            return 0
        return sum(choice.num_tokens for sub_request in self.sub_requests for choice in sub_request.response_choices)

    def finish_sub_request(self) -> None:
        self._num_unfinished -= 1

    def fail(self, error: ApiError) -> None:
        self.error = self.error or error
        self.wake()

    def notify(self) -> None:
        """Send the changes at once, or wake the greenlet to do so."""
        if self.send_now is None or not self.send_now():
            self.wake()

    def wake(self) -> None:
        if self._event is not None:
            self._event.set()

    def wait(self, until: float | None) -> None:
        """Wait until the call changes, at most until the monotonic time `until` (None: no limit).

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
