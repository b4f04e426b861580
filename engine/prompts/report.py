"""Report on the requests of a file: hits under each cache policy, and divergences with their causes and cost.

Each segment is tokenized separately, so hits are exact for the tokenizer, except for tokens that a chat template adds
between segments. An answer is found in the following request, and counts as cached if the policy caches answers.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from engine.cache.prefix_memory import common_prefix, common_prefix_of_parts
from engine.prompts.answers import cut_to, num_computed
from engine.prompts.causes import NO_BREAK, Divergence, cause_of, first_difference
from engine.prompts.engine_cache import EngineCache
from engine.prompts.policies import Hit, PolicyCache, Prompt, Tokens, policies
from engine.prompts.prefix_tree import Match, PrefixTree
from engine.prompts.readers import Keyspace, PromptRequest, Rendered
from engine.prompts.segments import Content, Segment

if TYPE_CHECKING:
    from engine.prompts.tokens import Encode

Fate = Literal["hit", "first", "again", "lost", "not_cacheable"]
LOST = ("expired", "evicted", "other_slot")
MAX_OTHERS = 16  # number of most recently used other caches in which a prompt is searched
CONTEXT = 60  # characters shown on either side of a break


class Span(Struct, frozen=True):
    """Tokens of a segment with the same outcome.

    `fate`: "first" for tokens computed for the first time; "again" for tokens recomputed because they or earlier tokens
    changed; "lost" for tokens recomputed because they were evicted.
    """

    path: str
    kind: str
    num_tokens: int
    fate: Fate


class Break(Struct, frozen=True):
    """Divergence of a prompt from an earlier prompt, and its cause."""

    cause: str
    detail: str
    path: str  # JSON path in the request
    earlier_path: str
    token: int  # index of the first token that differs
    earlier_text: str  # context in the earlier prompt: text before, "|", text after
    text: str  # context in this prompt


class Verdict(Struct, frozen=True):
    """Outcome of a request.

    Requests are numbered from 0, turns of a session from 1. `session_number`: number of an unnamed session, otherwise
    0.
    """

    request: int
    line: int
    model: str
    session: str
    turn: int
    num_tokens: int
    hits: dict[str, Hit]
    closest: int | None  # earlier request with the longest shared prefix
    num_shared: int
    spans: list[Span]
    parted: Break | None
    reported_tokens: int | None
    reported_cached: int | None
    session_number: int = 0
    is_answer_left_out: bool = False  # whether the answer did not fit into this engine's cache

    @property
    def num_again(self) -> int:
        """Number of recomputed tokens."""
        return sum(span.num_tokens for span in self.spans if span.fate in ("again", "lost"))


class Settings(Struct, frozen=True):
    """Settings of a report. `num_blocks`: size of this engine's cache, None: unlimited."""

    policy: str = "vllm"
    num_blocks: int | None = None


class CacheReplay:
    """Runs requests in order through the caches of all policies."""

    def __init__(self, encode: Encode, settings: Settings) -> None:
        self._encode, self._settings = encode, settings
        self._answers = policies()[settings.policy].answers  # whether answers are cached
        self._tokens: dict[str, Sequence[int]] = {}  # by text
        self._spans: dict[Span, Span] = {}  # interned, because each request repeats the history
        self._caches: dict[Keyspace, _Cache] = {}  # most recently used last
        self._instances: dict[Keyspace, str] = {}  # instance that answered last
        self._requests: list[PromptRequest] = []
        self._now = 0.0
        self._turns: Counter[str] = Counter()
        self._sessions: list[str] = []
        self._numbers: dict[str, int] = {}  # numbers of unnamed sessions
        unit = policies()["vllm"].unit
        self._engine = EngineCache(settings.num_blocks, unit) if settings.num_blocks else None

    @property
    def trees(self) -> dict[Keyspace, PrefixTree]:
        """Trees of the prompts so far, without answers."""
        return {space: cache.trees[False] for space, cache in self._caches.items()}

    def tokens_of(self, segment: Segment) -> Sequence[int]:
        """Return the token ids of a segment. Each text is encoded once."""
        found = self._tokens.get(segment.text)
        if found is None:
            found = self._encode(segment.text)
            if isinstance(found, list):
                found = array("I", found)
            self._tokens[segment.text] = found
        return found

    def run(self, request: PromptRequest) -> Verdict:
        index, raw = len(self._requests), request
        if request.rendered is not None:
            request = replace(request, segments=request.rendered.segments)
        segments, tokens = self._prompt(request)
        if request.time is not None:  # otherwise it has the time of the previous request
            self._now = request.time
        now = self._now
        space = self._keyspace(request)
        cache = self._caches[space] = self._caches.pop(space) if space in self._caches else _Cache()
        held = self._with_answer(request, tokens)
        matches = {name: tree.match(segments, tokens) for name, tree in cache.trees.items()}
        hits = {
            name: one.lookup(request, tokens, matches[one.policy.answers], now) for name, one in cache.policies.items()
        }
        is_left_out = False
        if self._engine is not None:
            whole, num_tokens = list(chain.from_iterable(held[1])), sum(map(len, tokens))
            hits["vllm"] = self._engine.admit(index, tokens, "\0".join(space), whole[num_tokens:])
            is_left_out = len(whole) > num_tokens and not self._engine.has_room(len(whole))
        match = matches[self._answers]
        closest, broken, last_with, from_match = cache.closest(segments, match), None, cache.last_with, match
        if closest >= 0 and raw.rendered is not None:
            broken = self._rendered_break(raw, raw.rendered, self._requests[closest])
        elif closest >= 0:
            broken = self._break(request, match, closest, cache)
        if broken is None or broken.cause in NO_BREAK:
            other = self._other_cache(space, segments, tokens, match)
            if other is not None:
                from_match, broken, last_with = other
                closest = from_match.closest
        session = self._session(request, from_match, closest, broken)
        if broken is not None and broken.cause in NO_BREAK:
            broken = None
        cut = _spans(segments, tokens, hits[self._settings.policy], match.num_tokens, broken, last_with)
        spans = [self._spans.setdefault(span, span) for span in cut]
        paths = {name: tree.insert(segments, tokens, index, now) for name, tree in cache.trees.items()}
        cache.trees[True].insert(*held, index, now)
        for one in cache.policies.values():
            answers = one.policy.answers
            one.insert(request, held if answers else (segments, tokens), paths[answers], now)
        self._requests.append(replace(raw, body={}, rendered=None))
        cache.last_with.update((segment.content, index) for segment in (*segments, *held[0]))
        self._turns[session] += 1
        return Verdict(
            index, request.line, request.model, session, self._turns[session], sum(map(len, tokens)), hits,
            closest if closest >= 0 else None, match.num_tokens, spans, broken,
            request.reported_tokens, request.reported_cached, self._numbers.get(session, 0), is_left_out,
        )  # fmt: skip

    def _keyspace(self, request: PromptRequest) -> Keyspace:
        """Return the keyspace of a request. An unreported instance is that of the previous request."""
        space = request.keyspace
        group = space._replace(instance="")
        self._instances[group] = space.instance or self._instances.get(group, "")
        return space._replace(instance=self._instances[group])

    def _prompt(self, request: PromptRequest) -> tuple[list[Segment], list[Sequence[int]]]:
        if request.rendered is not None:
            return request.rendered.segments, request.rendered.tokens
        return request.segments, [self.tokens_of(segment) for segment in request.segments]

    def _with_answer(self, request: PromptRequest, tokens: Tokens) -> Prompt:
        """Return the prompt with the cached part of its answer."""
        if request.held is not None:
            return request.held.segments, request.held.tokens
        own = [self.tokens_of(segment) for segment in request.answer]
        count = num_computed(request, sum(map(len, own)))
        answer, answer_tokens = cut_to(request.answer, own, count)
        return [*request.segments, *answer], [*tokens, *answer_tokens]

    def _session(self, request: PromptRequest, match: Match, closest: int, broken: Break | None) -> str:
        continues_prompt = match.num_tokens and (broken is None or broken.cause not in NO_BREAK)
        name = request.session
        if not name and closest >= 0 and continues_prompt:
            name = self._sessions[closest]
        if not name:
            number = len(set(self._sessions)) + 1
            name = f"session {number}"
            self._numbers[name] = number
        self._sessions.append(name)
        return name

    def _break(self, request: PromptRequest, match: Match, closest: int, cache: _Cache) -> Break | None:
        earlier, segments = self._requests[closest], request.segments
        pairs = zip(earlier.segments, segments, strict=False)
        at = next((i for i, (a, b) in enumerate(pairs) if a.content != b.content), len(earlier.segments))
        if match.parted is None or at >= min(len(earlier.segments), len(segments)):
            return None
        after = segments[len(match.path) - 1 :]
        if match.continues_prompt and not any(segment.content in cache.last_with for segment in after):
            return None  # another continuation of an earlier prompt, so all further tokens are new
        old, new = earlier.segments[at], segments[at]
        same = bool(request.session) and request.session == earlier.session
        cause, detail = cause_of(Divergence(earlier.segments, segments, at, same))
        inside = (old.kind, old.role) == (new.kind, new.role)
        shared = common_prefix(self.tokens_of(old), self.tokens_of(new)) if inside else 0
        place = common_prefix(old.text, new.text) if inside else 0
        return Break(
            cause, detail, first_difference(old, new) if inside else new.path, old.path,
            sum(len(self.tokens_of(one)) for one in segments[:at]) + shared,
            _context(old.text, place), _context(new.text, place),
        )  # fmt: skip

    def _rendered_break(self, request: PromptRequest, prompt: Rendered, earlier: PromptRequest) -> Break | None:
        """Find the divergence of a rendered prompt from an earlier one with its answer.

        If the requests are equal up to that point, the template rendered them differently.
        """
        assert earlier.held is not None
        held, raw = earlier.held, [*earlier.segments, *earlier.answer]
        pairs = zip(held.segments, prompt.segments, strict=False)
        at = next((i for i, (a, b) in enumerate(pairs) if a.content != b.content), -1)
        raw_at = next(
            (i for i, (a, b) in enumerate(zip(raw, request.segments, strict=False)) if a.content != b.content), len(raw)
        )
        if at < 0 or raw_at >= len(request.segments):
            return None
        continues_prompt = raw_at == len(raw)
        is_answered = bool(earlier.answer) or request.segments[raw_at].role == "assistant"
        by_template = held.of[at] < raw_at or (continues_prompt and is_answered)
        if continues_prompt and not by_template:
            return None
        token = common_prefix_of_parts(held.tokens, prompt.tokens)
        if token == sum(map(len, held.tokens)):
            return None  # the prompt only continues the earlier one
        one, other = ("".join(segment.text for segment in side) for side in (held.segments, prompt.segments))
        place = common_prefix(one, other)
        same = bool(request.session) and request.session == earlier.session
        cause, detail = cause_of(Divergence(raw, request.segments, raw_at, same, by_template))
        old, new = held.segments[at], prompt.segments[at]
        path, earlier_path = new.path, old.path
        if not by_template:
            path, earlier_path = first_difference(raw[raw_at], request.segments[raw_at]), raw[raw_at].path
        return Break(cause, detail, path, earlier_path, token, _context(one, place), _context(other, place))

    def _other_cache(
        self, space: Keyspace, segments: Sequence[Segment], tokens: Tokens, match: Match
    ) -> tuple[Match, Break, dict[Content, int]] | None:
        """Find another cache with a longer hit, and a break whose cause is the differing field of the keyspace.

        If this cache has a hit, only caches of the same model and adapter are searched.
        """
        others = dict[Keyspace, Match]()
        for one in [one for one in self._caches if one != space][-MAX_OTHERS:]:
            shares_segment = any(
                own.kind != "template" and own.content in self._caches[one].last_with for own in segments
            )
            if shares_segment and (match.closest < 0 or one[:2] == space[:2]):
                others[one] = self._caches[one].trees[self._answers].match(segments, tokens)
        num_equal = {one: sum(a == b for a, b in zip(one, space, strict=True)) for one in others}
        best = max(others, key=lambda one: (others[one].num_tokens, num_equal[one]), default=None)
        if best is None or others[best].num_tokens - match.num_tokens < policies()["vllm"].unit:
            return None
        field = next(name for name in space._fields if getattr(best, name) != getattr(space, name))
        old, new = str(getattr(best, field)), str(getattr(space, field))
        cause, detail = f"other_{field}", old
        if field == "cache_salt":  # a secret
            old = new = detail = ""
        elif field == "instance" and not (old and new):
            cause, detail = "not_known", ""
        broken = Break(cause, detail, field, field, match.num_tokens, f"|{old}", f"|{new}")
        return others[best], broken, self._caches[best].last_with


class _Cache:
    """Earlier prompts of one keyspace."""

    def __init__(self) -> None:
        self.trees = {answers: PrefixTree() for answers in (False, True)}  # without and with answers
        self.policies = {name: PolicyCache(policy) for name, policy in policies().items()}
        self.last_with: dict[Content, int] = {}  # content of a segment -> last request that had it

    def closest(self, segments: Sequence[Segment], match: Match) -> int:
        """Return the index of the request that a prompt continues, or -1.

        This is the last request with most of the prompt's messages or, without common messages, with the longest shared
        prefix.
        """
        if match.parted is None:
            return match.closest
        own = [one.content for one in segments if one.message is not None and one.kind not in ("system", "template")]
        votes = Counter(self.last_with[content] for content in own if content in self.last_with)
        return max(votes, key=lambda one: (votes[one], one), default=match.closest)


def _spans(
    segments: Sequence[Segment],
    tokens: Sequence[Sequence[int]],
    hit: Hit,
    num_shared: int,
    broken: Break | None,
    last_with: Mapping[Content, int],
) -> Iterator[Span]:
    """Divide the segments where the outcome changes."""
    start = 0
    for segment, own, after in zip(segments, tokens, [*segments[1:], None], strict=True):
        end = start + len(own)
        one = after if segment.kind == "template" else segment  # template text has the outcome of the next segment
        known = broken is not None and ((one is not None and one.content in last_with) or start < num_shared)
        between: Fate = "lost" if hit.limit in LOST else "not_cacheable"
        for fate, begin, stop in (
            ("hit", 0, hit.num_tokens),
            (between, hit.num_tokens, num_shared),
            ("again" if known else "first", max(num_shared, hit.num_tokens), end),
        ):
            if (count := min(end, stop) - max(start, begin)) > 0:
                yield Span(segment.path, segment.kind, count, fate)  # type: ignore[arg-type]
        start = end


def _context(text: str, at: int) -> str:
    return f"{text[max(0, at - CONTEXT) : at]}|{text[at : at + CONTEXT]}"
