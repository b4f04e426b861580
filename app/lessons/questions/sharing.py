"""Questions about prefix-cache hits and their limits."""

from __future__ import annotations

from collections import Counter
from functools import partial

from app.lessons.prompt_order import prompt_of, turns_of
from app.lessons.questions import pictured
from app.lessons.questions.rules import Option, Question, Value, choice, evidence_of, numbers, rule, select_options
from app.lessons.scene import Operation, Scene, Undecided, need_op
from engine.trace.operations import Admit, Lookup, LookupExternal

# reasons why hits end, most frequent first
REASONS = (
    "differs",
    "shared_too_short",
    "no_state",
    "evicted",
    "nothing_shared",
    "earlier_ended",
    "other_salt",
    "not_computed",
    "forgotten",
)


def _outside(scene: Scene, seq: int) -> Operation[LookupExternal]:
    message = f"sequence {seq} is not looked up outside the pool within the lesson"
    return need_op(scene.unseen_records(), LookupExternal, message, seq_id=seq)


def _lookup(scene: Scene, seq: int) -> Operation[Lookup]:
    message = f"sequence {seq} is not looked up in the prefix cache within the lesson"
    return need_op(scene.unseen_records(), Lookup, message, seq_id=seq)


@rule
def hit_tokens(scene: Scene, seq: int) -> Question:
    """Ask for the number of prompt tokens that hit in the prefix cache: full blocks, without the last token."""
    found = _lookup(scene, seq)
    op = found.op
    size = scene.block_size
    shared = op.num_shared_tokens
    if op.reason is None:  # every block that could hit has hit
        if op.num_hit_tokens < (op.num_tokens - 1) // size * size:
            raise Undecided("this run has no prefix cache")
        shared = op.num_tokens
    wrong = [
        *([("keys_alone", shared)] if op.reason == "no_state" else []),
        ("not_rounded", shared),
        ("rounded_up", -(-shared // size) * size),
        ("last_too" if shared >= op.num_tokens - 1 else "not_all_equal", op.num_tokens // size * size),
        ("none", 0),
        ("block_less", op.num_hit_tokens - size),
    ]
    evidence = evidence_of(found, "lookup.num_hit_tokens")
    place = partial(pictured.first_tokens, seq)
    tokens, right = op.num_tokens, op.num_hit_tokens
    return numbers("hit_tokens", right, wrong, evidence, place=place, seq=seq, tokens=tokens, block_size=size)


@rule
def hit_reason(scene: Scene, seq: int) -> Question:
    """Ask for the reason why no further block hits."""
    found = _lookup(scene, seq)
    op = found.op
    right = op.reason or "all"
    keys = [key for key in ("all", *REASONS) if key != "no_state" or scene.header.model.state_bytes]
    evidence = evidence_of(found, "lookup.reason")
    shared, size = op.num_shared_tokens, scene.block_size
    return choice("hit_reason", right, keys, evidence, why=keys, seq=seq, shared=shared, block_size=size)


@rule
def diverges_at(scene: Scene, seq: int) -> Question:
    """Ask for the line in which a prompt diverges from the earlier one with the longest shared prefix.

    The options are that line, its neighbours, the first and last lines, and the first line that no earlier prompt has.
    """
    found = _lookup(scene, seq)
    prompt = prompt_of(scene.log, found.record.index, found.op)
    lines, right = prompt.lines, prompt.diverges_at
    if found.op.reason is None or right >= len(lines) or len(lines) < 3:
        raise Undecided(f"the prompt of sequence {seq} has fewer than 3 lines, or does not diverge")
    seen = {line for turn in turns_of(scene.log, found.record.index) for line in turn.lines}
    new = next((at for at in range(right + 1, len(lines)) if lines[at] not in seen), right)
    likely = (right, right + 1, new, right - 1, len(lines) - 1, 0, right + 2)
    shown = sorted(select_options([at for at in likely if 0 <= at < len(lines)], right))
    options = [
        Option(
            text="answer.part",
            values={"part": lines[at]},
            why=None if at == right else "same" if at < right else "behind",
            place=pictured.first_tokens(seq, prompt.ends[at] - prompt.starts[at], prompt.starts[at]),
        )
        for at in shown
    ]
    evidence = evidence_of(found, "lookup.num_shared_tokens")
    values: dict[str, Value] = {"seq": seq}
    return Question(rule="diverges_at", values=values, options=options, right=shown.index(right), evidence=evidence)


@rule
def loaded_from(scene: Scene, seq: int) -> Question:
    """Ask where most keys and values of a prompt come from: the pool, a tier outside it, or computation."""
    external, pool = _outside(scene, seq), _lookup(scene, seq).op
    size, tokens = scene.block_size, pool.num_tokens
    blocks = Counter[str](external.op.media if external.op.verdict == "load" else [])
    found = {"pool": pool.num_hit_tokens, **{medium: count * size for medium, count in blocks.items()}}
    found["computed"] = tokens - sum(found.values())
    right = max(found, key=found.__getitem__)
    evidence = evidence_of(external, "lookup_external.media")
    all_of = ["pool", "cpu", "disk", "computed"]
    return choice("loaded_from", right, all_of, evidence, why=all_of, seq=seq)


@rule
def loaded_tokens(scene: Scene, seq: int) -> Question:
    """Ask for the number of prompt tokens loaded from outside the pool: full blocks, without the last token."""
    admitted = need_op(scene.unseen_records(), Admit, f"sequence {seq} is not admitted within the lesson", seq_id=seq)
    tokens, size = _lookup(scene, seq).op.num_tokens, scene.block_size
    right = admitted.op.num_external_tokens
    wrong = [
        ("last_too", tokens),
        ("not_rounded", tokens - 1),
        ("rounded_up", -(-tokens // size) * size),
        ("none", 0),
        ("block_less", right - size),
    ]
    evidence = evidence_of(admitted, "admit.num_external_tokens")
    place = partial(pictured.first_tokens, seq)
    return numbers("loaded_tokens", right, wrong, evidence, place=place, seq=seq, tokens=tokens, block_size=size)
