"""Report about prompts as one HTML page that needs neither a server nor scripts."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from jinja2 import Environment, FileSystemLoader

from app.ground.paths import templates_dir
from app.prompts.words import Words, percent, words
from engine.cache.prefix_memory import common_prefix
from engine.prompts.policies import policies
from engine.prompts.report import Fate, Verdict
from engine.prompts.savings import Saving
from engine.prompts.worth_keeping import Prefix

CountedUnit = Literal["parts", "rendered", "characters"]  # what is counted as tokens
MAX_BREAKS = 10  # breaks listed at the top of the page
FULL_WIDTH = 1000.0  # width of the longest bar


class Piece(NamedTuple):
    """Part of a bar: neighbouring segments with the same verdict."""

    fate: Fate
    x: float
    width: float
    num_tokens: int
    first: str
    last: str


class Turn(NamedTuple):
    """Request as the page shows it."""

    verdict: Verdict
    pieces: list[Piece]
    hit_share: str
    cause: str
    limits: list[tuple[str, int, str]]  # policy, number of tokens that hit, reason why no more hit
    block: str  # block in which it diverges
    earlier_text: list[tuple[str, bool]]  # pieces, and whether each differs
    text: list[tuple[str, bool]]


def report_page(
    name: str,
    verdicts: Sequence[Verdict],
    savings: Sequence[Saving],
    prefixes: Sequence[Prefix],
    policy: str,
    tokenizer: str | None,
    language: str,
    counted: CountedUnit = "parts",
    notes: Sequence[str] = (),
    costs: Sequence[str] = (),
) -> str:
    """Return the page.

    Args:
        tokenizer: name of the tokenizer that counted the tokens; None: the bundled model's.
        notes: sentences about counting.
        costs: sentences about recomputed tokens.
    """
    say = words(language)
    longest = max(verdict.num_tokens for verdict in verdicts)
    sessions: dict[str, list[Turn]] = {}
    for verdict in verdicts:
        sessions.setdefault(verdict.session, []).append(_turn(verdict, policy, longest, say))
    total = sum(verdict.num_tokens for verdict in verdicts)
    reported = [verdict for verdict in verdicts if verdict.reported_cached is not None and verdict.reported_tokens]
    caches = [(policies()[one].name, sum(v.hits[one].num_tokens for v in verdicts)) for one in verdicts[0].hits]
    environment = Environment(loader=FileSystemLoader(templates_dir()), autoescape=True, trim_blocks=True)
    return environment.get_template("prompts.html").render(
        say=say,
        name=name,
        nonce=secrets.token_hex(8),
        sheet=(templates_dir() / "prompts.css").read_text(encoding="utf-8"),
        policy=policies()[policy].name,
        requests=len(verdicts),
        sessions=sessions,
        total=total,
        share=percent(sum(verdict.hits[policy].num_tokens for verdict in verdicts), total),
        again=sum(verdict.num_again for verdict in verdicts),
        caches=[(cache, percent(count, total), FULL_WIDTH * count / (total or 1)) for cache, count in caches],
        reported=(
            percent(sum(v.reported_cached or 0 for v in reported), sum(v.reported_tokens or 0 for v in reported)),
            len(reported),
        )
        if reported
        else None,
        savings=savings,
        prefixes=prefixes,
        worst=[
            (verdict, say.cause(verdict.parted))
            for verdict in sorted(verdicts, key=lambda one: -one.num_again)
            if verdict.parted and verdict.num_again
        ][:MAX_BREAKS],
        costs=costs,
        counted=" ".join(
            [
                *filter(None, notes),
                say(f"counted.{counted}", tokenizer=tokenizer or say("bundled")),
                say(f"scope.{policies()[policy].scope}"),
            ]
        ),
        fates=("hit", "first", "again", "lost", "not_cacheable"),
    )


def _turn(verdict: Verdict, policy: str, longest: int, say: Words) -> Turn:
    pieces, x = [], 0.0
    for fate, spans in groupby(verdict.spans, key=lambda span: span.fate):
        group = list(spans)
        count = sum(span.num_tokens for span in group)
        width = FULL_WIDTH * count / longest
        pieces.append(Piece(fate, round(x, 2), round(width, 2), count, group[0].path, group[-1].path))
        x += width
    parted = verdict.parted
    cause = say.cause(parted) if parted else ""
    limits = []
    for name, hit in verdict.hits.items():
        limits.append((policies()[name].name, hit.num_tokens, say.limit(hit)))
    one, other = _mark_difference(parted.earlier_text, parted.text) if parted else ([], [])
    share = percent(verdict.hits[policy].num_tokens, verdict.num_tokens)
    block = say.block(parted.token, policies()[policy]) if parted else ""
    return Turn(verdict, pieces, share, cause, limits, block, one, other)


def _mark_difference(old: str, new: str) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """Split two texts into common beginning, differing middle, and common end."""
    old, new = old.replace("|", "", 1), new.replace("|", "", 1)
    begin = common_prefix(old, new)
    end = common_prefix(old[begin:][::-1], new[begin:][::-1])
    cut = [
        ((text[:begin], False), (text[begin : len(text) - end], True), (text[len(text) - end :], False))
        for text in (old, new)
    ]
    one, other = ([part for part in parts if part[0]] for parts in cut)
    return one, other
