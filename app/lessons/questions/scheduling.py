"""Questions about scheduling: running, waiting and preempted sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from app.lessons.questions import pictured
from app.lessons.questions.rules import (
    Evidence,
    Option,
    Question,
    Value,
    choice,
    comparison_whys,
    evidence_of,
    numbers,
    rule,
    select_options,
)
from app.lessons.scene import Scene, Undecided, need_op
from engine.trace.log import TraceReader
from engine.trace.operations import Admit, Defer, DeferReason, Preempt

NO_PREEMPTION = "no request is preempted within the lesson"


@rule
def admitted(scene: Scene, seq: int) -> Question:
    """Ask whether a waiting sequence is admitted in the next step, and if not, why."""
    record = scene.next_step()
    right, place = "", None
    for index, op in enumerate(record.ops):
        if isinstance(op, Admit) and op.seq_id == seq:
            entry = scene.entry(record, seq)
            tokens = len(scene.log.state_at(record.index - 1).sequences[seq].token_ids)
            is_whole = entry.start + len(entry.token_ids) == tokens
            right, place = "admit" if is_whole else "partly", index
        elif isinstance(op, Defer) and op.seq_id == seq:
            right, place = op.reason, index
    if not right:
        if seq not in scene.state.waiting:
            raise Undecided(f"sequence {seq} is not waiting")
        right = "behind"
    likely = ("partly", "behind") if scene.header.engine["enable_chunked_prefill"] else ("behind", "partly")
    keys = ["admit", "max_num_seqs", "no_free_blocks", "token_budget", *likely]
    if right == "step_preempted":
        keys = ["admit", "max_num_seqs", "no_free_blocks", "step_preempted"]
    if right in ("admit", "partly"):
        whys = {key: key for key in keys if key not in ("behind", "step_preempted")}
        whys["admit"] = "only_part"
    else:
        whys = {key: "admit" if key in ("admit", "partly") else "other" for key in keys}
    config = scene.header.engine
    values: dict[str, Value] = {
        "max_num_seqs": config.get("max_num_seqs") or 0,
        "budget": config.get("max_num_batched_tokens") or 0,
    }
    evidence = Evidence(
        record=record.index, op=place, figure="defer.reason" if right in get_args(DeferReason) else "admit"
    )
    return choice(
        "admitted",
        right,
        keys,
        evidence,
        whys=whys,
        of_options=dict.fromkeys(keys, values),
        seq=seq,
    )


@rule
def victim(scene: Scene) -> Question:
    """Ask for the sequence that is preempted when no blocks are left, which is the one admitted last."""
    found = need_op(scene.unseen_records(), Preempt, NO_PREEMPTION)
    op = found.op
    running = scene.log.state_at(found.record.index - 1).running
    if op.seq_id not in running:
        raise Undecided("the victim was admitted in the same step")
    longest = max(running, key=lambda i: len(scene.final_state.sequences[i].token_ids))
    whys = {running[0]: "first", longest: "longest", op.for_seq_id: "who_asks"}
    shown = select_options([op.for_seq_id, running[0], longest, *running], op.seq_id)
    options = [
        Option(
            text="answer.sequence",
            values={"n": i},
            number=i,
            why=None if i == op.seq_id else whys.get(i, "near"),
            place=pictured.AtRequest(seq=i),
        )
        for i in running
        if i in shown
    ]
    if len(options) < 2:
        raise Undecided("only one sequence is running, so there is no choice")
    right = next(at for at, option in enumerate(options) if option.number == op.seq_id)
    return Question(rule="victim", values={}, options=options, right=right, evidence=evidence_of(found, "preempt"))


@rule
def recomputed(scene: Scene) -> Question:
    """Ask for the number of tokens that the preempted sequence has to recompute."""
    found = need_op(scene.unseen_records(), Preempt, NO_PREEMPTION)
    op = found.op
    sequence = scene.log.state_at(found.record.index).sequences[op.seq_id]
    right, prompt = op.num_recompute_tokens, sequence.num_prompt_tokens
    parts = [("only_output", len(sequence.token_ids) - prompt), ("only_prompt", prompt)]
    wrong = [
        ("nothing", 0),
        *((why if number < right else "found_again", number) for why, number in parts),
        ("found_again", op.num_computed_tokens),
        ("one", 1),
    ]
    evidence = evidence_of(found, "preempt.num_recompute_tokens")

    def place(count: float) -> pictured.Place:
        return pictured.last_tokens(op.seq_id, count, op.num_computed_tokens)

    return numbers("recomputed", right, wrong, evidence, place=place, seq=op.seq_id)


@rule
def run_at_once(scene: Scene) -> Question:
    """Ask for the maximum number of sequences that run at the same time."""
    most, where, submitted = 0, 0, 0
    for index in range(len(scene.log)):
        state = scene.log.state_at(index)
        submitted = max(submitted, len(state.sequences))
        if len(state.running) > most:
            most, where = len(state.running), index
    if not most:
        raise Undecided("no request runs within the lesson")
    limit = scene.header.engine.get("max_num_seqs")
    places = int(limit) if isinstance(limit, int) else submitted
    wrong = [("all", submitted), ("one", 1), ("places", places), ("no_place" if most == places else "more", most + 1)]
    evidence = Evidence(record=where, figure="len(running)")
    return numbers("run_at_once", most, wrong, evidence, came=submitted)


def longest_gap(log: TraceReader, seq: int, instance: int | None = None) -> int:
    """Return the maximum number of tokens that the steps of `instance` (None: all) computed between two tokens of a
    sequence.

    The gap is measured in tokens, because times are not reproducible.
    """
    most = gap = 0
    has_output = False
    for index in range(len(log)):
        record = log.record(index)
        if instance is not None and record.instance != instance:
            continue
        gap += sum(len(entry.token_ids) for entry in record.batch)
        if any(output.seq_id == seq for output in record.outputs):
            most = max(most, gap if has_output else 0)
            has_output, gap = True, 0
    return most


def gaps_compared(rule_name: str, scene: Scene, gap_in: Callable[[TraceReader], int], **subject: Any) -> Question:
    """Ask whether a longest gap between two tokens is longer than in the previous run.

    `gap_in` returns the gap in a log. `subject`: placeholders of the texts that name the sequence or request.
    """
    if scene.earlier is None:
        raise Undecided("there is no previous run")
    before, now = gap_in(scene.earlier), gap_in(scene.log)
    right = "shorter" if now < before else "longer" if now > before else "same"
    evidence = Evidence(record=len(scene.log) - 1, figure="max Σ len(batch.token_ids) between two outputs")
    options = ["shorter", "same", "longer"]
    whys = comparison_whys(right, options)
    return choice(rule_name, right, options, evidence, whys=whys, **subject, before=before, now=now)


@rule
def gap_against_before(scene: Scene, seq: int = 0) -> Question:
    """Ask whether the longest gap between two tokens of a sequence is longer than in the previous run."""
    return gaps_compared("gap_against_before", scene, lambda log: longest_gap(log, seq), seq=seq)


@rule
def first_token_against_before(scene: Scene, seq: int) -> Question:
    """Ask whether a sequence's first token needs more steps than in the previous run."""
    if scene.earlier is None:
        raise Undecided("there is no previous run")
    before, now = _steps_to_first(scene.earlier, seq), _steps_to_first(scene.log, seq)
    right = "earlier" if now < before else "later" if now > before else "same"
    evidence = Evidence(record=len(scene.log) - 1, figure="steps from submit to the first output")
    options = ["earlier", "same", "later"]
    return choice(
        "first_token_against_before",
        right,
        options,
        evidence,
        whys=comparison_whys(right, options),
        seq=seq,
        before=before,
        now=now,
    )


def _steps_to_first(log: TraceReader, seq: int) -> int:
    submitted = None
    for index in range(len(log)):
        record = log.record(index)
        if submitted is None and seq in log.state_at(index).sequences:
            submitted = record.step
        if submitted is not None and any(output.seq_id == seq for output in record.outputs):
            return record.step - submitted
    raise Undecided(f"sequence {seq} has no first token in one of the runs")
