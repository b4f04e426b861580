"""Redaction of a report for sharing: positions, lengths and hashes instead of texts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from engine.prompts.report import Verdict
from engine.prompts.savings import Saving

NAMING = ("tool", "schema", "other_adapter", "other_instance")  # prefixes of causes whose details contain user names


def without_texts(verdicts: Sequence[Verdict], savings: Sequence[Saving]) -> tuple[list[Verdict], list[Saving]]:
    """Replace each text of a request by a hash and a length."""
    hidden = [
        replace(verdict, session=_hash(verdict.session), parted=replace(
            verdict.parted,
            detail="…" if verdict.parted.cause.startswith(NAMING) else verdict.parted.detail,
            earlier_text=_hidden(verdict.parted.earlier_text), text=_hidden(verdict.parted.text),
        ))
        if verdict.parted else replace(verdict, session=_hash(verdict.session))
        for verdict in verdicts
    ]  # fmt: skip
    return hidden, [replace(saving, example=[]) for saving in savings]


def without_reasons(unread: Mapping[str, int]) -> Counter[str]:
    """Count the unread entries by shape, without the reasons, which may quote texts."""
    found = Counter[str]()
    for fault, count in unread.items():
        found[fault.partition(":")[0]] += count
    return found


def _hidden(text: str) -> str:
    return f"{len(text)} characters, sha256 {_hash(text)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
