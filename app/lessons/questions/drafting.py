"""Questions about speculative decoding: accepted and rejected drafts."""

from __future__ import annotations

from typing import NamedTuple

from app.lessons.questions.rules import Question, evidence_of, numbers, rule
from app.lessons.scene import Operation, Scene, Undecided
from engine.trace.operations import Draft, Verify


class _Drafted(NamedTuple):
    verified: Operation[Verify]
    num_drafted: int
    num_accepted: int
    text: str


def _next(scene: Scene, seq: int) -> _Drafted:
    """Return the next verified drafts of a sequence."""
    for record in scene.unseen_records():
        drafts = [op for op in record.ops if isinstance(op, Draft) and op.seq_id == seq]
        for place, op in enumerate(record.ops):
            if isinstance(op, Verify) and op.seq_id == seq and drafts:
                text = b"".join(drafts[0].token_bytes).decode("utf-8", "ignore")  # the text may end within a character
                return _Drafted(Operation(record, place, op), op.num_drafted, op.num_accepted, text)
    raise Undecided(f"no draft of sequence {seq} is verified within the lesson")


@rule
def drafts_kept(scene: Scene, seq: int = 0) -> Question:
    """Ask for the number of accepted drafts in the next verification: those before the first that is not sampled."""
    found = _next(scene, seq)
    wrong = [("all", found.num_drafted), ("none", 0), ("one", 1)]
    evidence = evidence_of(found.verified, "num_accepted")
    drafts, count = found.text.strip(), found.num_drafted
    return numbers("drafts_kept", found.num_accepted, wrong, evidence, seq=seq, drafts=drafts, n=count)


@rule
def tokens_gained(scene: Scene, seq: int = 0) -> Question:
    """Ask for the number of tokens that the next verifying step adds: the accepted drafts and one sampled token."""
    found = _next(scene, seq)
    right = found.verified.record
    gained = sum(output.seq_id == seq for output in right.outputs)
    wrong = [("without_own", found.num_accepted), ("one_a_step", 1), ("all_computed", found.num_drafted + 1)]
    return numbers("tokens_gained", gained, wrong, evidence_of(found.verified, "outputs"), seq=seq, n=found.num_drafted)


@rule
def taken_back(scene: Scene, seq: int = 0) -> Question:
    """Ask for the number of slots in which the next verifying step writes keys of rejected drafts."""
    found = _next(scene, seq)
    wrong = [
        ("nothing", 0),
        ("all_drafts", found.num_drafted),
        ("kept", found.num_accepted),
        ("all_computed", found.num_drafted + 1),
    ]
    evidence, right = evidence_of(found.verified, "num_drafted − num_accepted"), found.num_drafted - found.num_accepted
    return numbers("taken_back", right, wrong, evidence, seq=seq, n=found.num_drafted)
