"""Seeded workloads: requests and their arrival times. The same seed gives the same requests.

Token ids are uniformly random in [FIRST_ID, vocabulary), because the cost does not depend on the text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from engine.bench.errors import BenchError
from engine.bench.request_files import RequestFile, read_requests

FIRST_ID = 300  # lower ids are special tokens and single bytes in the shipped models and most others
HASH_TOKENS = 512  # tokens per hash of a trace
TRACES = Path(__file__).parent / "traces"
Length = int | tuple[int, int]  # number of tokens, or a range for random numbers
Encode = Callable[[str], list[int]]


@dataclass(frozen=True, slots=True)
class WorkloadRequest:
    """Request of a workload. It is submitted as soon as `at`, `at_step`, `after` and `think` all allow."""

    prompt: list[int]  # only the new tokens of a further turn, unless `is_whole`
    output_tokens: int
    seed: int
    at: float = 0.0  # seconds after the start
    at_step: int = 0  # steps of the engine
    after: int | None = None  # index of the previous turn, which must have finished
    think: float = 0.0  # seconds between the end of the previous turn and this request
    is_whole: bool = False  # the prompt includes the previous turns; else prompt and output of `after` are prepended
    late: bool = False  # the disturbing request, whose latencies are excluded
    chosen: list[int] = field(default_factory=list)  # forced output tokens; empty: sampled


class _Workload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of all workloads."""


class Random(_Workload, frozen=True, kw_only=True, tag="random"):
    """Independent prompts, all at once or with Poisson arrivals at `rate` per second."""

    num_requests: int
    prompt_tokens: Length
    output_tokens: Length
    rate: float | None = None
    copies: int = 1  # submissions of each prompt, with the seeds of the samples of one request


class SharedPrefix(_Workload, frozen=True, kw_only=True, tag="shared_prefix"):
    """System prompt of `prefix_tokens`, followed by a different question per request."""

    num_requests: int
    prefix_tokens: int
    suffix_tokens: Length
    output_tokens: Length


class FewShot(_Workload, frozen=True, kw_only=True, tag="few_shot"):
    """Instruction, `examples` of `pool` examples in a fixed order, and a question."""

    num_requests: int
    instruction_tokens: int
    pool: int
    examples: int
    example_tokens: int
    question_tokens: Length
    output_tokens: Length


class MultiTurn(_Workload, frozen=True, kw_only=True, tag="multi_turn"):
    """Conversations: each turn's prompt is all previous turns followed by `user_tokens` new tokens."""

    conversations: int
    turns: int
    system_tokens: int  # common to all conversations
    user_tokens: Length
    output_tokens: Length


class Tree(_Workload, frozen=True, kw_only=True, tag="tree"):
    """Tree of thoughts: `branching` children at each of `depth` levels; a request per path from root to leaf."""

    depth: int
    branching: int
    node_tokens: int
    output_tokens: Length


class LateLong(_Workload, frozen=True, kw_only=True, tag="late_long"):
    """`num_requests` decoding requests, and one long prompt that arrives after `at_step` steps."""

    num_requests: int
    prompt_tokens: Length
    output_tokens: int
    long_tokens: int
    long_output_tokens: int
    at_step: int


class Texts(_Workload, frozen=True, kw_only=True, tag="texts"):
    """Given texts, one request each.

    With `prompt_tokens`, so many tokens of a text are its prompt and the rest is the forced output.
    """

    texts: list[str]
    output_tokens: int  # maximum
    prompt_tokens: int | None = None  # None: all


class Trace(_Workload, frozen=True, kw_only=True, tag="trace"):
    """Requests of a real service (`traces/README.md`), with all lengths divided by `scale`."""

    name: str  # name of a shipped file without suffix, or path of a user's file
    num_requests: int  # number of requests to use: the first that are short enough
    scale: Annotated[int, Meta(ge=1, le=HASH_TOKENS)]
    most_tokens: int  # maximum of input and output tokens, after the division
    stretch: float  # factor of the time between requests
    format: str | None = None  # of `request_files.FORMATS`; None: recognized by content

    @property
    def path(self) -> Path:
        own = Path(self.name).expanduser()
        return own if own.suffix else TRACES / f"{self.name}.jsonl"


Workload = Random | SharedPrefix | FewShot | MultiTurn | Tree | LateLong | Texts | Trace


def requests_of(workload: Workload, vocab_size: int, seed: int, encode: Encode | None = None) -> list[WorkloadRequest]:
    """Return the requests of a workload. `encode` is the model's tokenizer; only `texts` needs it.

    Raises:
        BenchError: the workload is impossible for this model.
    """
    draw = _Draw(np.random.default_rng(seed), vocab_size, seed)
    match workload:
        case Random():
            return _random(workload, draw)
        case SharedPrefix():
            prefix = draw.tokens(workload.prefix_tokens)
            return [
                draw.request(prefix + draw.tokens(workload.suffix_tokens), workload.output_tokens)
                for _ in range(workload.num_requests)
            ]
        case FewShot():
            return _few_shot(workload, draw)
        case MultiTurn():
            return _multi_turn(workload, draw)
        case Tree():
            paths = [draw.tokens(workload.node_tokens)]
            for _ in range(workload.depth):
                paths = [path + draw.tokens(workload.node_tokens) for path in paths for _ in range(workload.branching)]
            return [draw.request(path, workload.output_tokens) for path in paths]
        case LateLong():
            decoding = [
                draw.request(draw.tokens(workload.prompt_tokens), workload.output_tokens)
                for _ in range(workload.num_requests)
            ]
            long = draw.tokens(workload.long_tokens)
            return [*decoding, draw.request(long, workload.long_output_tokens, at_step=workload.at_step, late=True)]
        case Texts():
            if encode is None:
                raise BenchError("this workload has texts, and the model has no tokenizer")
            return [_text_request(encode(text), workload, draw) for text in workload.texts]
        case Trace():
            return _trace(workload, draw, encode)


class _Draw:
    """Generator of random tokens, lengths and requests; results depend on the order of calls."""

    def __init__(self, generator: np.random.Generator, vocab_size: int, seed: int) -> None:
        if vocab_size <= FIRST_ID + 1:
            raise BenchError(f"a vocabulary of {vocab_size} tokens is too small: prompts are drawn from {FIRST_ID} on")
        self.generator = generator
        self._vocab_size = vocab_size
        self._seed = seed
        self._num_requests = 0

    def length(self, length: Length) -> int:
        if isinstance(length, int):
            return length
        low, high = length
        return int(self.generator.integers(low, high + 1))

    def tokens(self, length: Length) -> list[int]:
        found: list[int] = self.generator.integers(FIRST_ID, self._vocab_size, self.length(length)).tolist()
        return found

    def tokens_of(self, key: int, length: int) -> list[int]:
        """Return tokens that depend on the key alone, not on the order of calls."""
        generator = np.random.default_rng([self._seed, key])
        return generator.integers(FIRST_ID, self._vocab_size, length).tolist()  # type: ignore[no-any-return]

    def request(self, prompt: list[int], output_tokens: Length, **when: float | int | bool | None) -> WorkloadRequest:
        self._num_requests += 1
        seed = (self._seed << 32) + self._num_requests
        return WorkloadRequest(prompt, self.length(output_tokens), seed, **when)  # type: ignore[arg-type]


def _text_request(token_ids: list[int], workload: Texts, draw: _Draw) -> WorkloadRequest:
    if workload.prompt_tokens is None:
        return draw.request(token_ids, workload.output_tokens)
    chosen = token_ids[workload.prompt_tokens :][: workload.output_tokens]
    if not chosen:
        raise BenchError(f"a text of {len(token_ids)} tokens has none after a prompt of {workload.prompt_tokens}")
    request = draw.request(token_ids[: workload.prompt_tokens], len(chosen))
    return replace(request, chosen=chosen)


def _random(workload: Random, draw: _Draw) -> list[WorkloadRequest]:
    prompts = [draw.tokens(workload.prompt_tokens) for _ in range(workload.num_requests)]
    gaps = np.zeros(workload.num_requests)
    if workload.rate is not None:
        # the run begins with the first arrival, so there is no gap before it
        gaps[1:] = draw.generator.exponential(1 / workload.rate, workload.num_requests - 1)
    arrivals = np.cumsum(gaps).tolist()
    requests = [
        draw.request(prompt, workload.output_tokens, at=at) for prompt, at in zip(prompts, arrivals, strict=True)
    ]
    if workload.copies == 1:
        return requests
    from engine.model.sampling import sample_seed

    return [
        WorkloadRequest(request.prompt, request.output_tokens, sample_seed(request.seed, copy), at=request.at)
        for request in requests
        for copy in range(workload.copies)
    ]


def _trace(workload: Trace, draw: _Draw, encode: Encode | None) -> list[WorkloadRequest]:
    path = workload.path
    if path.parent == TRACES and not path.is_file():
        found = ", ".join(sorted(path.stem for path in TRACES.glob("*.jsonl")))
        raise BenchError(f"there is no trace {workload.name}; there are {found}")
    requests = _trace_requests(read_requests(path, workload.format, encode), workload, draw)
    if len(requests) < workload.num_requests:
        raise BenchError(f"the trace {path.name} has {len(requests)} requests of at most {workload.most_tokens} tokens")
    return requests


def requests_in(file: RequestFile, workload: Trace, vocab_size: int, seed: int) -> list[WorkloadRequest]:
    """Return the first requests of a user's file; fewer than `num_requests` if the file has no more.

    Raises:
        BenchError: no request is short enough, or the scale does not divide the tokens per hash.
    """
    requests = _trace_requests(file, workload, _Draw(np.random.default_rng(seed), vocab_size, seed))
    if not requests:
        raise BenchError(f"{workload.name} has no request of at most {workload.most_tokens} tokens")
    return requests


def _trace_requests(file: RequestFile, workload: Trace, draw: _Draw) -> list[WorkloadRequest]:
    size = file.hash_tokens
    if workload.scale < 1 or (size or 0) % workload.scale:  # prompts would be shorter than their shared prefixes
        raise BenchError(f"scale must divide {size}, the tokens per hash; {workload.scale} does not")
    requests: list[WorkloadRequest] = []
    began: float | None = None
    turns: dict[int | None, tuple[int, int]] = {}  # row -> index of its request, number of prompt and answer tokens
    for number, row in enumerate(file.rows):
        if len(requests) == workload.num_requests:
            break
        num_in, num_out = (max(1, length // workload.scale) for length in (row.input_length, row.output_length))
        before = file.after[number] if file.after else None
        after, num_before = turns.get(before, (None, 0))
        holds = after is not None and num_in > num_before and file.holds(number)
        adds = before is not None and not holds and row.chat_id is None
        num_in += num_before if adds else 0
        if num_in + num_out > workload.most_tokens or (adds and after is None):
            continue
        began = row.timestamp if began is None else began
        num_new = num_in - num_before if adds or holds else num_in
        if file.new_tokens:
            prompt = list(file.new_tokens[number][:num_new])
        elif size is None:
            prompt = draw.tokens(num_new)
        else:
            blocks = [draw.tokens_of(hash_id, size // workload.scale) for hash_id in row.hash_ids or ()]
            tokens = [token for block in blocks for token in block]
            prompt = tokens[num_before:num_in] if holds else tokens[:num_new]
        at = (row.timestamp - began) / file.ticks * workload.stretch if row.delay is None or after is None else 0.0
        think = (row.delay or 0.0) / file.ticks * workload.stretch
        is_whole = after is not None and not (adds or holds)
        turns[number] = len(requests), num_in + num_out
        requests.append(draw.request(prompt, num_out, at=at, after=after, think=think, is_whole=is_whole))
    return requests


def _few_shot(workload: FewShot, draw: _Draw) -> list[WorkloadRequest]:
    instruction = draw.tokens(workload.instruction_tokens)
    pool = [draw.tokens(workload.example_tokens) for _ in range(workload.pool)]
    requests = []
    for _ in range(workload.num_requests):
        chosen = sorted(draw.generator.permutation(workload.pool)[: workload.examples].tolist())
        shots = [token for index in chosen for token in pool[index]]
        question = draw.tokens(workload.question_tokens)
        requests.append(draw.request(instruction + shots + question, workload.output_tokens))
    return requests


def _multi_turn(workload: MultiTurn, draw: _Draw) -> list[WorkloadRequest]:
    """Return the first turns of all conversations, then the second turns, and so on."""
    system = draw.tokens(workload.system_tokens)
    requests: list[WorkloadRequest] = []
    for turn in range(workload.turns):
        for _ in range(workload.conversations):
            user_turn = draw.tokens(workload.user_tokens)
            after = len(requests) - workload.conversations if turn else None
            requests.append(
                draw.request(user_turn if turn else system + user_turn, workload.output_tokens, after=after)
            )
    return requests
