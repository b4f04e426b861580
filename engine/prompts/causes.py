"""Why a prompt parts from an earlier one: rules, each decided by the two prompts alone.

The first rule that holds gives the cause. Where none holds the cause is not known, which is better than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from engine.cache.prefix_memory import common_prefix
from engine.prompts.segments import Segment, is_hashed

Cause = Literal[
    "tools_added", "tools_removed", "tools_replaced", "tools_reordered", "tool_changed", "schema_keys_reordered",
    "volatile_text", "system_changed", "reasoning_dropped", "image_changed", "last_turn_marker", "messages_dropped",
    "message_trimmed", "history_summarised", "message_edited", "template_differs", "other_model", "other_adapter",
    "other_cache_salt", "other_instance", "not_known", "another_question", "new_conversation",
]  # fmt: skip
NO_BREAK = ("another_question", "new_conversation")  # nothing that was cached is asked for again
Found = tuple[Cause, str] | None
DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
VOLATILE = {  # what changes from request to request, the most telling first
    "date": re.compile(
        r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
        r"|\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m\b)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\b1[5-9]\d{8}(?:\d{3})?\b"
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
HASHED = '{"hash":"'  # what a text begins with in whose place a hash stands: two are alike or not
LEAST_ALIKE = 0.5  # of the shorter text that a trimmed or edited one shares with it at its ends


@dataclass(frozen=True)
class Parting:
    """Two prompts and the place of the first segment in which they differ; either may have none there."""

    earlier: Sequence[Segment]
    later: Sequence[Segment]
    at: int
    same_session: bool = False
    by_template: bool = False  # they are alike up to here, and rendered differently

    @cached_property
    def old(self) -> Segment | None:
        return self.earlier[self.at] if self.at < len(self.earlier) else None

    @cached_property
    def new(self) -> Segment | None:
        return self.later[self.at] if self.at < len(self.later) else None

    @cached_property
    def kept_later(self) -> int:
        """Segments of the earlier prompt after the place that the later one has after it, too."""
        after = {segment.content for segment in self.later[self.at :]}
        return sum(segment.content in after for segment in self.earlier[self.at + 1 :])

    def is_last_message(self, segments: Sequence[Segment]) -> bool:
        """Whether the place lies in a prompt's last message."""
        return self.at < len(segments) and segments[self.at].message == segments[-1].message is not None


def cause_of(parting: Parting) -> tuple[Cause, str]:
    """Decide why two prompts part, with a detail: names, a number, or kinds of `VOLATILE`; "" = there is none."""
    for rule in RULES:
        if found := rule(parting):
            return found
    return "not_known", ""


def _template(parting: Parting) -> Found:
    return ("template_differs", "") if parting.by_template else None


def _tools(parting: Parting) -> Found:
    if "tool" not in {segment.kind for segment in (parting.old, parting.new) if segment}:
        return None
    old, new = (
        {_name(one): one.text for one in side if one.kind == "tool"} for side in (parting.earlier, parting.later)
    )
    added, removed = [n for n in new if n not in old], [n for n in old if n not in new]
    if added or removed:
        cause: Cause = "tools_replaced" if added and removed else "tools_added" if added else "tools_removed"
        return cause, ", ".join([*(f"+{n}" for n in added[:5]), *(f"-{n}" for n in removed[:5])])
    changed = [name for name in new if new[name] != old[name]]
    if not changed:
        return "tools_reordered", ", ".join(list(new)[:5])
    alike = all(_sorted(new[name]) == _sorted(old[name]) for name in changed)
    return ("schema_keys_reordered" if alike else "tool_changed"), ", ".join(changed[:5])


def _volatile(parting: Parting) -> Found:
    old, new = parting.old, parting.new
    if old is None or new is None or (old.kind, old.role) != (new.kind, new.role) or old.kind in ("tool", "image"):
        return None
    if parting.is_last_message(parting.earlier) and parting.is_last_message(parting.later):
        return None  # another question
    what = volatile_part(old.text, new.text)
    return ("volatile_text", what) if what else None


def volatile_part(old: str, new: str) -> str:
    """Name what alone differs between two texts: one of `VOLATILE`, or several of them; "" where more differs."""
    if HASHED in (old[: len(HASHED)], new[: len(HASHED)]):
        return ""
    masked = [old, new]
    found = list[str]()
    for name, pattern in VOLATILE.items():
        before = masked
        masked = [pattern.sub("\0", text) for text in before]
        if _spans(pattern, before):
            found.append(name)
        if masked[0] == masked[1]:
            return ",".join(found)
    return ""


def _spans(pattern: re.Pattern[str], texts: Sequence[str]) -> bool:
    """Whether what a pattern finds differs between two texts."""
    one, other = ([found.group() for found in pattern.finditer(text)] for text in texts)
    return one != other


def _system(parting: Parting) -> Found:
    kinds = {segment.kind for segment in (parting.old, parting.new) if segment}
    return ("system_changed", "") if "system" in kinds else None


def _reasoning(parting: Parting) -> Found:
    old, new = parting.old, parting.new
    if old is None or old.kind != "reasoning" or new is None or new.kind == "reasoning":
        return None
    rest = next((one for one in parting.earlier[parting.at :] if one.kind != "reasoning"), None)
    return ("reasoning_dropped", "") if rest is None or rest.content == new.content else None


def _image(parting: Parting) -> Found:
    old, new = parting.old, parting.new
    return ("image_changed", "") if old and new and old.kind == new.kind == "image" else None


def _another_question(parting: Parting) -> Found:
    """The last messages differ and nothing follows: no answer to what was asked is part of either."""
    if parting.is_last_message(parting.earlier) and parting.is_last_message(parting.later):
        return "another_question", ""
    return None


def _last_turn_marker(parting: Parting) -> Found:
    """Find a part of the last message that is gone now that it is no longer the last."""
    old, new = parting.old, parting.new
    if old is None or new is None or not parting.is_last_message(parting.earlier):
        return None
    if old.message != new.message:  # a block of its own, with nothing in its place
        return ("last_turn_marker", "") if parting.at and parting.later[parting.at - 1].message == old.message else None
    return ("last_turn_marker", "") if old.role == new.role and new.text.strip() in old.text else None


def _dropped(parting: Parting) -> Found:
    new = parting.new
    if new is None or parting.old is None:
        return None
    rest = [segment.content for segment in parting.earlier[parting.at :]]
    after = [segment.content for segment in parting.later[parting.at :]]
    if new.content not in rest:
        return None
    gone = rest.index(new.content)
    shared = common_prefix(rest[gone:], after)
    if gone and (gone + shared == len(rest) or shared >= 2):
        return "messages_dropped", str(gone)
    return None


def _new_conversation(parting: Parting) -> Found:
    """Nothing of the messages is shared, neither here nor later."""
    old, new = parting.old, parting.new
    if old is None or new is None or parting.same_session or parting.kept_later:
        return None
    first = all(segment.message is None or segment.kind == "system" for segment in parting.later[: parting.at])
    return ("new_conversation", "") if first and _alike(old.text, new.text) < LEAST_ALIKE else None


def _trimmed(parting: Parting) -> Found:
    old, new = parting.old, parting.new
    if old is None or new is None or (old.kind, old.role) != (new.kind, new.role) or not parting.kept_later:
        return None
    if (not new.text.startswith(HASHED) and 2 * len(new.text) <= len(old.text)) or (
        len(new.text) < len(old.text) and _alike(old.text, new.text) > 0.9
    ):
        return "message_trimmed", f"{len(old.text):,} → {len(new.text):,}"
    return None


def _summarised(parting: Parting) -> Found:
    """Most of the history is gone, and something shorter stands in its place."""
    old, new = parting.old, parting.new
    if old is None or new is None or old.message is None or new.message is None:
        return None
    gone = len(parting.earlier) - parting.at - parting.kept_later
    shorter = len(parting.later) < len(parting.earlier)
    return ("history_summarised", str(gone)) if shorter and gone >= 2 and 2 * parting.kept_later < gone else None


def _edited(parting: Parting) -> Found:
    old, new = parting.old, parting.new
    if old is None or new is None or (old.kind, old.role) != (new.kind, new.role) or old.message != new.message:
        return None
    last = parting.at == len(parting.earlier) - 1
    if parting.kept_later or _alike(old.text, new.text) >= LEAST_ALIKE or (parting.same_session and not last):
        return "message_edited", ""
    return None


RULES: tuple[Callable[[Parting], Found], ...] = (
    _template, _tools, _reasoning, _image, _volatile, _system, _another_question, _last_turn_marker, _dropped,
    _new_conversation, _summarised, _trimmed, _edited,
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


def _alike(old: str, new: str) -> float:
    """Return the share of the shorter text that both have at their beginnings and ends together."""
    if HASHED in (old[: len(HASHED)], new[: len(HASHED)]):
        return 0.0
    least = min(len(old), len(new))
    begin = common_prefix(old, new)
    end = min(common_prefix(old[::-1], new[::-1]), least - begin)
    return (begin + end) / least if least else 0.0
