"""Questions about speculative decoding: accepted and rejected drafts."""

from __future__ import annotations

from typing import NamedTuple

from app.lessons.questions.rules import Question, by, numbers, rule
from app.lessons.scene import Operation, Scene, Undecided
from engine.trace.operations import Draft, Verify


class _Drafted(NamedTuple):
    verified: Operation[Verify]
    num_drafted: int
    num_accepted: int
    text: str


def _next(scene: Scene, seq: int) -> _Drafted:
    """Return the next drafts of a sequence that are verified."""
    for record in scene.coming():
        drafts = [op for op in record.ops if isinstance(op, Draft) and op.seq_id == seq]
        for place, op in enumerate(record.ops):
            if isinstance(op, Verify) and op.seq_id == seq and drafts:
                text = b"".join(drafts[0].token_bytes).decode("utf-8", "ignore")  # it may end within a character
                return _Drafted(Operation(record, place, op), op.num_drafted, op.num_accepted, text)
    raise Undecided(f"no draft of sequence {seq} is verified within the lesson")


@rule
def drafts_kept(scene: Scene, seq: int = 0) -> Question:
    """Ask how many of the next drafts are accepted: those before the first that differs from the sampled token."""
    found = _next(scene, seq)
    wrong = [("all", found.num_drafted), ("none", 0), ("one", 1)]
    evidence = by(found.verified, "num_accepted")
    drafts, count = found.text.strip(), found.num_drafted
    return numbers("drafts_kept", found.num_accepted, wrong, evidence, seq=seq, drafts=drafts, n=count)


@rule
def tokens_gained(scene: Scene, seq: int = 0) -> Question:
    """Ask how many tokens the next verifying step adds: the accepted drafts, and one more sampled token."""
    found = _next(scene, seq)
    right = found.verified.record
    gained = sum(output.seq_id == seq for output in right.outputs)
    wrong = [("without_own", found.num_accepted), ("one_a_step", 1), ("all_computed", found.num_drafted + 1)]
    return numbers("tokens_gained", gained, wrong, by(found.verified, "outputs"), seq=seq, n=found.num_drafted)


@rule
def taken_back(scene: Scene, seq: int = 0) -> Question:
    """Ask how many slots of the next verifying step have keys of rejected drafts."""
    found = _next(scene, seq)
    wrong = [
        ("nothing", 0),
        ("all_drafts", found.num_drafted),
        ("kept", found.num_accepted),
        ("all_computed", found.num_drafted + 1),
    ]
    evidence, right = by(found.verified, "num_drafted − num_accepted"), found.num_drafted - found.num_accepted
    return numbers("taken_back", right, wrong, evidence, seq=seq, n=found.num_drafted)
