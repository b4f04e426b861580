"""What the prefix cache has, and why not more."""

from __future__ import annotations

from functools import partial

from app.lessons.questions import places
from app.lessons.questions.rules import Question, by, choice, numbers, rule
from app.lessons.scene import Operation, Scene, need_op
from engine.trace.events import Lookup

REASONS = ("shared_too_short", "differs", "nothing_shared", "evicted", "earlier_ended", "other_salt")


def _lookup(scene: Scene, seq: int) -> Operation[Lookup]:
    otherwise = f"the prefix cache is not asked for sequence {seq} as far as the lesson goes"
    return need_op(scene.coming(), Lookup, otherwise, seq_id=seq)


@rule
def hit_tokens(scene: Scene, seq: int) -> Question:
    """Tokens of a prompt that the prefix cache has: whole blocks, and never the last token."""
    found = _lookup(scene, seq)
    op = found.op
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
    evidence = by(found, "lookup.num_hit_tokens")
    place = partial(places.first_tokens, seq)
    tokens, right = op.num_tokens, op.num_hit_tokens
    return numbers("hit_tokens", right, wrong, evidence, place=place, seq=seq, tokens=tokens, block_size=size)


@rule
def hit_reason(scene: Scene, seq: int) -> Question:
    """Why the hits end where they do."""
    found = _lookup(scene, seq)
    op = found.op
    right = op.reason or "all"
    keys = ["all", *REASONS] if right in ("all", *REASONS) else ["all", *REASONS, right]
    shown = [key for key in keys if key in (right, "all", "shared_too_short", "differs", "nothing_shared")]
    evidence = by(found, "lookup.reason")
    size = scene.block_size
    return choice("hit_reason", right, shown, evidence, seq=seq, shared=op.num_shared_tokens, block_size=size)
