"""One HTTP request to the API: its prompts, the choices that come of each, and who waits for them.

On the hub thread only. What happens to it is told by the log's records (`AsyncEngine`), and read by the greenlet of its
connection, which sleeps meanwhile.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from gevent.event import Event

from app.openai.errors import ApiError
from app.openai.generated import Reader
from app.openai.request import Asked, Prompt
from engine.trace.records import Output, PromptLogprob


class Choice:
    """One output of one prompt."""

    def __init__(self, call: Call, index: int) -> None:
        """`index`: its place in the answer."""
        self.index = index
        self.outputs: list[Output] = []  # not told yet; of an answer that is told whole, all
        self.num_tokens = 0
        self.num_characters = 0  # told so far, for text offsets
        self.unfinished = b""  # the beginning of a character, told as a token
        reading = call.asked.reading
        self.reader = None if reading is None else Reader(reading)
        self.is_begun = False  # something of it has been told
        self.finish_reason: str | None = None
        self.stopped_by = ""  # the stop string that ended it, or a word about what did
        self.is_told = False  # with its finish_reason
        self.around: tuple[bytes, bytes] | None = None  # its texts, in the events that differ in nothing else


class Part:
    """One prompt: one request of the engine."""

    def __init__(self, call: Call, prompt: Prompt, request_id: str, first_index: int, count: int) -> None:
        """`count`: sequences that will run for it."""
        self.call, self.prompt, self.request_id = call, prompt, request_id
        self.first_index, self.count = first_index, count
        self.sampling = call.asked.sampling
        self.record: int | None = None  # that submitted it
        self.num_cached_tokens = 0
        self.num_findable_tokens = 0  # at its beginning, in full blocks that others can find since it was computed
        self.is_admitted = False
        self.choices: list[Choice] = []  # in the order of their sequences
        self.unfinished = 0
        self.of_sequence: dict[int, Choice] = {}  # those that have ended included
        self.ranked: list[Choice] = []  # best first, where more ran than were asked for
        self.prompt_logprobs: list[PromptLogprob] = []

    @property
    def told_choices(self) -> list[Choice]:
        """Those of the answer, in their order."""
        n = self.call.asked.n
        return (self.ranked or self.choices)[:n]

    def add_choice(self, seq_id: int) -> Choice:
        choice = self.of_sequence[seq_id] = Choice(self.call, self.first_index + len(self.choices))
        self.choices.append(choice)
        self.unfinished += 1
        return choice


class Call:
    """`event` wakes who waits for it; what has changed stands in the fields."""

    def __init__(
        self, asked: Asked, client: str, model: str, theater_id: str, arrived_at: float, id_prefix: str = ""
    ) -> None:
        """`arrived_at`: when all of it was here, on the monotonic clock; `id_prefix`: "", of OpenAI's completions."""
        prefix = id_prefix or ("chatcmpl-" if asked.kind == "chat" else "cmpl-")
        self.id = prefix + secrets.token_hex(12)
        self.created = int(time.time())
        self.asked, self.client, self.model, self.theater_id = asked, client, model, theater_id
        self.arrived_at = arrived_at
        many = len(asked.prompts) > 1
        self.parts = [
            Part(self, prompt, f"{self.id}-{i}" if many else self.id, i * asked.n, asked.sampling.num_sequences)
            for i, prompt in enumerate(asked.prompts)
        ]
        self.changed: dict[Choice, Part] = {}  # choices with something to tell
        self.error: ApiError | None = None
        self.is_gone = False  # its client has left, or was answered
        self._unfinished = len(self.parts)
        self._event: Event | None = None
        self.tell: Callable[[], bool] | None = None  # writes what has changed at once; False: who waits must do it

    @property
    def first_record(self) -> int | None:
        """The record that submitted its first prompt; None: it waits in its lane."""
        return self.parts[0].record

    @property
    def is_done(self) -> bool:
        """Nothing more comes."""
        return self.error is not None or self.is_gone or not self._unfinished

    @property
    def num_prompt_tokens(self) -> int:
        return sum(len(part.prompt.token_ids) for part in self.parts)

    @property
    def num_cached_tokens(self) -> int:
        return sum(part.num_cached_tokens for part in self.parts)

    @property
    def num_newly_cached_tokens(self) -> int:
        """Prompt tokens that did not hit, in blocks that the next request can hit."""
        return sum(max(0, part.num_findable_tokens - part.num_cached_tokens) for part in self.parts)

    @property
    def num_output_tokens(self) -> int:
        if self.asked.only_echo:
            return 0
        return sum(choice.num_tokens for part in self.parts for choice in part.told_choices)

    def part_ended(self) -> None:
        self._unfinished -= 1

    def fail(self, error: ApiError) -> None:
        self.error = self.error or error
        self.wake()

    def news(self) -> None:
        """Something has changed: it is told, or who waits is woken for it."""
        if self.tell is None or not self.tell():
            self.wake()

    def wake(self) -> None:
        """Have who waits look."""
        if self._event is not None:
            self._event.set()

    def wait(self, until: float | None) -> None:
        """Until something has changed. `until`: the clock (monotonic) after which it has taken too long.

        Raises:
            TimeoutError: that has come.
        """
        if self._event is None:
            self._event = Event()
        self._event.clear()
        left = None if until is None else until - time.monotonic()
        if left is not None and (left <= 0 or not self._event.wait(left)):
            raise TimeoutError
        if left is None:
            self._event.wait()
