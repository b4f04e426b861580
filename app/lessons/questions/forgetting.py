"""Questions about KV cache compression: kept and forgotten tokens, freed blocks, and changed outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from app.lessons.questions.pictured import Place, first_tokens
from app.lessons.questions.rules import Evidence, Question, choice, evidence_of, numbers, rule
from app.lessons.scene import Scene, Undecided, find_op, need_op
from engine.trace.log import TraceReader
from engine.trace.operations import Forget, Release

MIN_DIFFERENCE = 0.02  # minimum relative difference of the two lowest scores, to be visible in the picture


@rule
def keys_kept(scene: Scene, seq: int = 0) -> Question:
    """Ask for the number of tokens that each KV head keeps at the next decision, which is the budget."""
    found = need_op(scene.unseen_records(), Forget, f"sequence {seq} forgets nothing within the lesson", seq_id=seq)
    gone = [op for op in _decisions(scene, found.record.index, seq) if op.layer == found.op.layer]
    kept = found.op.at - sum(len(op.positions[0]) for op in gone)
    sinks, recent = (_setting(scene, f"forget_{name}") for name in ("sinks", "recent"))
    wrong = [
        ("all", found.op.at),
        ("pinned_only", sinks + recent),
        ("chosen_only", kept - sinks - recent),
        ("divided", kept // scene.header.model.num_kv_heads),
    ]
    return numbers("keys_kept", kept, wrong, evidence_of(found, "at − positions"), seq=seq, n=found.op.at)


@rule
def goes_next(scene: Scene, layer: int, head: int, seq: int = 0) -> Question:
    """Ask for the token that a KV head forgets at its next decision, if the visible scores decide it."""
    message = f"layer {layer} of sequence {seq} forgets nothing within the lesson"
    found = need_op(scene.unseen_records(), Forget, message, seq_id=seq, layer=layer)
    forgotten = found.op.positions[head]
    if len(forgotten) != 1:
        raise Undecided(f"KV head {head} of layer {layer} forgets {len(forgotten)} tokens at once, not one")
    gone = {p for op in _decisions(scene, scene.now - 1, seq) if op.layer == layer for p in op.positions[head]}
    sinks, recent = (_setting(scene, f"forget_{name}") for name in ("sinks", "recent"))
    candidates = [p for p in range(sinks, found.op.at - recent) if p not in gone]
    scores = _scores(scene, layer, head, seq, candidates)
    order = sorted(candidates, key=lambda p: (scores[p], -p))
    lowest = scores[order[0]]
    if order[0] != forgotten[0] or len(order) < 2 or scores[order[1]] - lowest < MIN_DIFFERENCE * abs(lowest):
        raise Undecided(f"the visible scores do not decide which token KV head {head} of layer {layer} forgets next")
    second = "younger" if _is_by_age(scene) else "next_but_one"
    wrong = [("sink", 0), ("oldest", candidates[0]), ("newest", found.op.at - 1), (second, order[1])]

    def place(position: float) -> Place:
        return first_tokens(seq, 1, after=int(position))

    return numbers(
        "goes_next",
        forgotten[0],
        wrong,
        evidence_of(found, f"positions of KV head {head}"),
        place=place,
        text="position",
        seq=seq,
        layer=layer,
        head=head,
        sinks=sinks,
        recent=recent,
    )


@rule
def freed_by_forgetting(scene: Scene, seq: int = 0) -> Question:
    """Ask for the number of blocks that are released because every head has forgotten their tokens."""
    freed, forgotten, record = 0, 0, None
    for index in range(len(scene.log)):
        for op in scene.log.record(index).ops:
            if isinstance(op, Forget) and op.seq_id == seq:
                forgotten, record = forgotten + sum(map(len, op.positions)), index
            elif isinstance(op, Release) and op.seq_id == seq and op.reason == "forgotten":
                freed, record = freed + 1, index
    if record is None:
        raise Undecided(f"sequence {seq} forgets nothing within the lesson")
    model, size = scene.header.model, scene.final_state.block_size
    masked = forgotten // (model.num_layers * model.num_kv_heads)  # mean tokens per head
    wrong = [
        ("all_masked", -(-masked // size)),
        ("each_token", masked),
        ("none", 0),
        ("some", max(1, masked // size // 2)),
    ]
    evidence = Evidence(record=record, figure="release with the reason forgotten, counted")
    return numbers("freed_by_forgetting", freed, wrong, evidence, seq=seq)


@rule
def first_change(scene: Scene, seq: int = 0) -> Question:
    """Ask for the first position at which the full cache gives another most probable token after the same text."""
    found = changes(scene.log, seq)
    if not found:
        raise Undecided(f"the full cache has the same most probable tokens in all of sequence {seq}")
    prompt, end = scene.final_state.sequences[seq].num_prompt_tokens, len(scene.final_state.sequences[seq].token_ids)
    wrong = [("first_output", prompt), ("at_once", prompt + 1), ("at_end", end - 1)]

    def place(position: float) -> Place:
        return first_tokens(seq, 1, after=int(position))

    evidence = Evidence(record=found[0].record, figure="outputs.full.own_token_id")
    at = found[0].position
    return numbers("first_change", at, wrong, evidence, place=place, text="position", seq=seq, prompt=prompt)


@rule
def after_keeping(scene: Scene, seq: int = 0) -> Question:
    """Ask whether a run that keeps one token diverges from the full cache later than the previous run."""
    if scene.earlier is None:
        raise Undecided("there is no previous run")
    before, now = changes(scene.earlier, seq), changes(scene.log, seq)
    if not before:
        raise Undecided(f"the previous run did not diverge from the full cache in sequence {seq}")
    options = ["earlier", "same", "later", "never"]
    first, then = before[0].position, now[0].position if now else None
    right = "never" if then is None else "same" if then == first else "later" if then > first else "earlier"
    evidence = Evidence(record=now[0].record if now else len(scene.log) - 1, figure="outputs.full.own_token_id")
    return choice("after_keeping", right, options, evidence, why=options, seq=seq, position=first)


class Change(NamedTuple):
    """Output for which the full cache gives another most probable token."""

    record: int
    position: int


def changes(log: TraceReader, seq: int) -> list[Change]:
    """Return the outputs of a sequence for which the full cache gives another most probable token after the same text.
    Sampled tokens are not compared.
    """
    found = []
    for index in range(len(log)):
        record = log.record(index)
        ends = {entry.seq_id: entry.context_len for entry in record.batch}
        for output in record.outputs:
            if output.seq_id == seq and output.full is None:
                raise Undecided("the run is not compared with the full cache; set forget_compare")
            if output.seq_id == seq and output.full and output.full.own_token_id != output.full.token_id:
                found.append(Change(index, ends[seq]))
    return found


def _decisions(scene: Scene, end: int, seq: int) -> list[Forget]:
    """Return the `forget` operations of a sequence in the records up to `end`."""
    records = (scene.log.record(index) for index in range(end + 1))
    return [op for record in records for op in record.ops if isinstance(op, Forget) and op.seq_id == seq]


def _scores(scene: Scene, layer: int, head: int, seq: int, positions: Sequence[int]) -> dict[int, float]:
    """Return the scores of tokens at the last visible decision. With the window policy they are the positions."""
    if _is_by_age(scene):
        return {position: float(position) for position in positions}
    for index in range(scene.now - 1, -1, -1):
        if find_op([scene.log.record(index)], Forget, seq_id=seq, layer=layer):
            own = [one for one in scene.capture(index).scores if (one.seq_id, one.layer) == (seq, layer)]
            if own and not np.isnan(found := own[0].scores[head][list(positions)]).any():
                return dict(zip(positions, map(float, found), strict=True))
    raise Undecided(f"no scores of layer {layer} are visible yet")


def _is_by_age(scene: Scene) -> bool:
    return scene.header.engine["forget_policy"] == "window"


def _setting(scene: Scene, name: str) -> int:
    found = scene.header.engine.get(name)
    if not isinstance(found, int):
        raise Undecided("nothing is forgotten in this run")
    return found
