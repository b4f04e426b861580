"""What the prefix cache has, and why not more."""

from __future__ import annotations

from app.lessons.questions.rules import Evidence, Question, choice, numbers, rule
from app.lessons.scene import Scene, Undecided, find_op
from engine.trace.events import Lookup
from engine.trace.records import StepRecord

REASONS = ("shared_too_short", "differs", "nothing_shared", "evicted", "earlier_ended", "other_salt")


def _lookup(scene: Scene, seq: int) -> tuple[StepRecord, int, Lookup]:
    found = find_op(scene.coming(), Lookup, seq_id=seq)
    if found is None:
        raise Undecided(f"the prefix cache is not asked for sequence {seq} as far as the lesson goes")
    op = found[0].ops[found[1]]
    assert isinstance(op, Lookup)
    return *found, op


@rule
def hit_tokens(scene: Scene, seq: int) -> Question:
    """Tokens of a prompt that the prefix cache has: whole blocks, and never the last token."""
    record, place, op = _lookup(scene, seq)
    size = scene.block_size
    shared = op.num_shared_tokens
    if op.reason is None:  # everything that may hit did
        shared = op.num_tokens
    wrong = [
        ("not_rounded", shared),
        ("rounded_up", -(-shared // size) * size),
        ("last_too", op.num_tokens // size * size),
        ("none", 0),
        ("block_less", op.num_hit_tokens - size),
    ]
    evidence = Evidence(record=record.index, op=place, figure="lookup.num_hit_tokens")
    right = op.num_hit_tokens
    return numbers("hit_tokens", right, wrong, evidence, mark="tokens", seq=seq, tokens=op.num_tokens, block_size=size)


@rule
def hit_reason(scene: Scene, seq: int) -> Question:
    """Why the hits end where they do."""
    record, place, op = _lookup(scene, seq)
    right = op.reason or "all"
    keys = ["all", *REASONS] if right in ("all", *REASONS) else ["all", *REASONS, right]
    shown = [key for key in keys if key in (right, "all", "shared_too_short", "differs", "nothing_shared")]
    evidence = Evidence(record=record.index, op=place, figure="lookup.reason")
    size = scene.block_size
    return choice("hit_reason", right, shown, evidence, seq=seq, shared=op.num_shared_tokens, block_size=size)
