"""Determines why a prompt diverges from an earlier one, by rules over the two prompts.

The first matching rule gives the cause. If no rule matches, the cause is "not_known".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from engine.cache.prefix_memory import common_prefix
from engine.prompts.segments import Content, Segment, is_hashed

Cause = Literal[
    "tools_added", "tools_removed", "tools_replaced", "tools_reordered", "tool_changed", "schema_keys_reordered",
    "volatile_text", "system_changed", "reasoning_dropped", "image_changed", "last_turn_marker", "messages_dropped",
    "messages_inserted", "message_trimmed", "history_summarised", "message_edited", "template_differs", "other_model",
    "other_adapter", "other_cache_salt", "other_instance", "not_known", "another_question", "new_conversation",
]  # fmt: skip
NO_BREAK = ("another_question", "new_conversation")  # causes that waste no cached tokens
RuleResult = tuple[Cause, str] | None
DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
VOLATILE = {  # patterns of values that change between requests, most specific first
    "date": re.compile(
        r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
        r"|(?<![\w:.])\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m\b|(?![\w:]))"
        r"|(?<![\w.])(?:\d{1,2}/\d{1,2}/\d{2,4}|\d{1,2}\.\d{1,2}\.\d{4})(?![\w.]\w)|\b1[5-9]\d{8}(?:\d{3})?\b"
        rf"|(?:\b{DAY},? )?(?:\b\d{{1,2}}\.? {MONTH}(?:,? \d{{4}})?|\b{MONTH} \d{{1,4}}(?:st|nd|rd|th)?(?:,? \d{{4}})?)"
        rf"|\b{DAY}\b",
        re.IGNORECASE,
    ),
    "identifier": re.compile(
        r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\b(?=[a-z_-]*\d)[0-9a-f]{5,64}\b|\b[a-z]+_(?=\w*\d)\w{6,}\b",
        re.IGNORECASE,
    ),
    "path": re.compile(r"(?:[A-Za-z]:\\|~?/)[\w.@+~-]+(?:[\\/][\w.@+~-]+)*"),
    "number": re.compile(r"\d+(?:[.,]\d+)*"),
}
ANYWHERE = ("date", "identifier")  # kinds that are volatile in messages too, where paths and numbers change by edits
SUMMARY = re.compile(  # texts with which agents introduce a summary of the history
    r"\b(?:summary|summari[sz]ed|compacted|condensed|continued from)\b.{0,80}"
    r"\b(?:conversation|history|context|session|messages|turns|so far)\b"
    r"|(?:摘要|总结|概括|压缩).{0,30}(?:对话|历史|上下文|会话)"
    r"|(?:对话|历史|上下文|会话).{0,30}(?:摘要|总结|概括|压缩)",
    re.IGNORECASE | re.DOTALL,
)
SUMMARY_WITHIN = 400  # number of leading characters that are searched
HASHED = '{"hash":"'  # prefix of hashed texts, which can only be compared for equality
MIN_SIMILARITY = 0.5  # minimum of `_similarity` for a trimmed or edited text


@dataclass(frozen=True)
class Divergence:
    """Two prompts and the index of the first segment that differs. Either prompt may end there."""

    earlier: Sequence[Segment]
    later: Sequence[Segment]
    at: int
    same_session: bool = False
    by_template: bool = False  # whether the requests are equal up to here but are rendered differently

    @cached_property
    def old(self) -> Segment | None:
        return self.earlier[self.at] if self.at < len(self.earlier) else None

    @cached_property
    def new(self) -> Segment | None:
        return self.later[self.at] if self.at < len(self.later) else None

    @cached_property
    def rest(self) -> list[Content]:
        """Contents of the earlier prompt, from the index on."""
        return [segment.content for segment in self.earlier[self.at :]]

    @cached_property
    def after(self) -> list[Content]:
        """Contents of the later prompt, from the index on."""
        return [segment.content for segment in self.later[self.at :]]

    @cached_property
    def num_common_later(self) -> int:
        """Number of segments after the index of the earlier prompt that are also after it in the later prompt."""
        after = set(self.after)
        return sum(content in after for content in self.rest[1:])

    @cached_property
    def is_moved(self) -> bool:
        """Whether the segment at the index of one prompt occurs later in the other."""
        return bool(self.rest and self.after and (self.rest[0] in self.after or self.after[0] in self.rest))

    @cached_property
    def is_before_messages(self) -> bool:
        """Whether only tools and system prompts precede the index."""
        return all(segment.message is None or segment.kind == "system" for segment in self.later[: self.at])

    def is_last_message(self, segments: Sequence[Segment]) -> bool:
        """Return whether the index is in the last message of a prompt."""
        return self.at < len(segments) and segments[self.at].message == segments[-1].message is not None


def cause_of(divergence: Divergence) -> tuple[Cause, str]:
    """Return the cause of a divergence and a detail: names, a number, kinds of `VOLATILE`, or ""."""
    for rule in RULES:
        if found := rule(divergence):
            return found
    return "not_known", ""


def _template(divergence: Divergence) -> RuleResult:
    return ("template_differs", "") if divergence.by_template else None


def _tools(divergence: Divergence) -> RuleResult:
    old, new = (one if one and one.kind == "tool" else None for one in (divergence.old, divergence.new))
    if old is None and new is None:
        return None
    if old and new and _name(old) == _name(new):
        before = {_name(one): one for one in divergence.earlier if one.kind == "tool"}
        is_sorted = _sorted(old.text) == _sorted(new.text)
        changed = [
            _name(one)
            for one in divergence.later
            if one.kind == "tool"
            and (other := before.get(_name(one)))
            and one.text != other.text
            and (_sorted(one.text) == _sorted(other.text)) == is_sorted
        ]
        return ("schema_keys_reordered" if is_sorted else "tool_changed"), ", ".join(changed[:5])
    names = [[_name(one) for one in side if one.kind == "tool"] for side in (divergence.earlier, divergence.later)]
    added, removed = (list(Counter(a) - Counter(b)) for a, b in (names[::-1], names))
    if not (old is None or _name(old) in removed or new is None or _name(new) in added):
        return "tools_reordered", ", ".join(names[1][:5])
    cause: Cause = "tools_replaced" if added and removed else "tools_added" if added else "tools_removed"
    return cause, ", ".join([*(f"+{n}" for n in added[:5]), *(f"-{n}" for n in removed[:5])])


def _volatile(divergence: Divergence) -> RuleResult:
    old, new = divergence.old, divergence.new
    if old is None or new is None or (old.kind, old.role) != (new.kind, new.role) or old.kind in ("tool", "image"):
        return None
    kinds = volatile_part(old.text, new.text)
    if old.kind != "system" and not set(kinds.split(",")) <= {*ANYWHERE, ""}:
        return None
    return ("volatile_text", kinds) if kinds else None


def volatile_part(old: str, new: str) -> str:
    """Return the kinds of `VOLATILE` if two texts differ only in such values, otherwise ""."""
    if HASHED in (old[: len(HASHED)], new[: len(HASHED)]):
        return ""
    masked = [old, new]
    found = list[str]()
    for name, pattern in VOLATILE.items():
        before = masked
        masked = [pattern.sub("\0", text) for text in before]
        if _matches_differ(pattern, before):
            found.append(name)
        if masked[0] == masked[1]:
            return ",".join(found)
    return ""


def _matches_differ(pattern: re.Pattern[str], texts: Sequence[str]) -> bool:
    """Return whether the matches of a pattern differ between two texts."""
    one, other = ([found.group() for found in pattern.finditer(text)] for text in texts)
    return one != other


def _system(divergence: Divergence) -> RuleResult:
    old, new = divergence.old, divergence.new
    if "system" not in {segment.kind for segment in (old, new) if segment} or not divergence.is_before_messages:
        return None
    return None if old and new and old.text == new.text else ("system_changed", "")


def _reasoning(divergence: Divergence) -> RuleResult:
    old, new = divergence.old, divergence.new
    if old is None or old.kind != "reasoning" or new is None or new.kind == "reasoning":
        return None
    rest = next((one for one in divergence.earlier[divergence.at :] if one.kind != "reasoning"), None)
    return ("reasoning_dropped", "") if rest is None or rest.content == new.content else None


def _image(divergence: Divergence) -> RuleResult:
    old, new = divergence.old, divergence.new
    if old is None or new is None or not old.kind == new.kind == "image":
        return None
    are_images = all("image" in one.text.partition(" ")[0] for one in (old, new))
    return ("image_changed", "") if are_images else None


def _another_question(divergence: Divergence) -> RuleResult:
    """Match if only the last message of the later prompt differs, so that nothing after it was cached."""
    new = divergence.new
    if new is None or new.kind == "system" or divergence.num_common_later or divergence.is_moved:
        return None
    return ("another_question", "") if divergence.is_last_message(divergence.later) else None


def _last_turn_marker(divergence: Divergence) -> RuleResult:
    """Match a part of the last message that is absent once the message is no longer the last."""
    old, new = divergence.old, divergence.new
    if old is None or new is None or not divergence.is_last_message(divergence.earlier):
        return None
    if old.message != new.message:  # a block was removed
        return (
            ("last_turn_marker", "")
            if divergence.at and divergence.later[divergence.at - 1].message == old.message
            else None
        )
    text = new.text.strip()
    is_part = text and re.search(rf"(?<!\w){re.escape(text)}(?!\w)", old.text)
    return ("last_turn_marker", "") if old.role == new.role and is_part else None


def _dropped(divergence: Divergence) -> RuleResult:
    num_dropped = _num_before(divergence.after, divergence.rest)
    return ("messages_dropped", str(num_dropped)) if num_dropped else None


def _inserted(divergence: Divergence) -> RuleResult:
    num_new = _num_before(divergence.rest, divergence.after)
    return ("messages_inserted", str(num_new)) if num_new else None


def _num_before(short: Sequence[Content], long: Sequence[Content]) -> int:
    """Return how many elements precede `short` in `long`, if `long` continues like `short`.

    Returns 0 if it does not, if only one element matches, or if `short` has one of the preceding elements elsewhere.
    """
    if not short or short[0] not in long:
        return 0
    count = long.index(short[0])
    shared = common_prefix(short, long[count:])
    if shared < 2 and shared < min(len(short), len(long) - count):
        return 0
    behind, others = Counter(long[count:]), Counter(short)
    return 0 if any(others[content] > behind[content] for content in long[:count]) else count


def _new_conversation(divergence: Divergence) -> RuleResult:
    """Match prompts that share only tools and system prompts."""
    old, new = divergence.old, divergence.new
    if (
        old is None
        or new is None
        or divergence.num_common_later
        or divergence.is_moved
        or not divergence.is_before_messages
    ):
        return None
    if divergence.same_session and old.message is not None and old.kind != "system":
        return None  # the history may have been summarized
    if old.message is None and HASHED in (old.text[: len(HASHED)], new.text[: len(HASHED)]):
        return None  # the similarity of hashed texts is unknown
    same_tool = old.kind == new.kind == "tool" and _name(old) == _name(new)
    is_similar = same_tool if "tool" in (old.kind, new.kind) else _similarity(old.text, new.text) >= MIN_SIMILARITY
    return None if is_similar else ("new_conversation", "")


def _trimmed(divergence: Divergence) -> RuleResult:
    old, new = divergence.old, divergence.new
    if old is None or new is None or (old.kind, old.role) != (new.kind, new.role) or not divergence.num_common_later:
        return None
    if divergence.is_moved or new.text.startswith(HASHED) or len(new.text) >= len(old.text):
        return None
    minimum = MIN_SIMILARITY if 2 * len(new.text) <= len(old.text) else 0.9
    if old.kind == "result" and minimum == MIN_SIMILARITY:  # clients replace a result by "[cleared]"
        minimum = 0.0
    return (
        ("message_trimmed", f"{len(old.text):,} → {len(new.text):,}")
        if _similarity(old.text, new.text) >= minimum
        else None
    )


def _summarised(divergence: Divergence) -> RuleResult:
    """Match several messages replaced by fewer: marked as a summary, or followed by unchanged messages."""
    old, new = divergence.old, divergence.new
    if old is None or new is None or old.message is None or new.message is None or divergence.is_moved:
        return None
    after, rest = set(divergence.after), set(divergence.rest)
    num_dropped = next((i for i, content in enumerate(divergence.rest) if content in after), len(divergence.rest))
    num_new = next((i for i, content in enumerate(divergence.after) if content in rest), len(divergence.after))
    if num_dropped < 2 or num_new >= num_dropped:
        return None
    lengths = [
        sum(len(text) for _, _, text, _ in contents)
        for contents in (divergence.rest[:num_dropped], divergence.after[:num_new])
    ]
    has_words = SUMMARY.search(new.text[:SUMMARY_WITHIN]) is not None
    is_shown = divergence.num_common_later and num_dropped >= 4 and 2 * lengths[1] <= lengths[0]
    return ("history_summarised", str(num_dropped)) if has_words or is_shown else None


def _edited(divergence: Divergence) -> RuleResult:
    old, new = divergence.old, divergence.new
    if old is None or new is None or (old.kind, old.role) != (new.kind, new.role) or old.message != new.message:
        return None
    if divergence.is_moved:
        return None
    is_last_message = divergence.at == len(divergence.earlier) - 1 and not divergence.is_before_messages
    if divergence.num_common_later or (is_last_message and _similarity(old.text, new.text) >= MIN_SIMILARITY):
        return "message_edited", ""
    return None


RULES: tuple[Callable[[Divergence], RuleResult], ...] = (
    _template, _new_conversation, _another_question, _tools, _reasoning, _image, _volatile, _system, _dropped,
    _inserted, _last_turn_marker, _summarised, _trimmed, _edited,
)  # fmt: skip


def first_difference(old: Segment, new: Segment) -> str:
    """Return the JSON path of the first value in which two segments differ."""
    if "{" not in (old.text[:1], new.text[:1]) or old.kind not in ("tool", "call"):
        return new.path
    try:
        return new.path + _path(msgspec.json.decode(old.text), msgspec.json.decode(new.text))
    except (msgspec.DecodeError, RecursionError):
        return new.path


def _path(one: Any, other: Any) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        if list(one) != list(other):
            shared = common_prefix(list(one), list(other))
            same = next((key for key in list(one)[:shared] if one[key] != other[key]), None)
            return f".{same}{_path(one[same], other[same])}" if same is not None else ""
        key = next((key for key in one if msgspec.json.encode(one[key]) != msgspec.json.encode(other[key])), None)
        return f".{key}{_path(one[key], other[key])}" if key is not None else ""
    if isinstance(one, list) and isinstance(other, list):
        at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        return f"[{at}]" + (_path(one[at], other[at]) if at < min(len(one), len(other)) else "")
    return ""


def _name(segment: Segment) -> str:
    tool = msgspec.json.decode(segment.text)
    function = tool.get("function")
    inner = function.get("name") if isinstance(function, dict) else None
    name: Any = tool.get("name") or inner or tool.get("type") or "?"
    return f"#{name['hash'][:6]}" if is_hashed(name) else str(name)


def _sorted(text: str) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(text), order="sorted")


def _similarity(old: str, new: str) -> float:
    """Return the share of the shorter text that equals the beginning and the end of the other."""
    if HASHED in (old[: len(HASHED)], new[: len(HASHED)]):
        return 0.0
    minimum = min(len(old), len(new))
    begin = common_prefix(old, new)
    end = min(common_prefix(old[::-1], new[::-1]), minimum - begin)
    return (begin + end) / minimum if minimum else 0.0
