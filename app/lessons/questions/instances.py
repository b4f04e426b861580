"""Questions about several instances: transfers between them, their costs, delays, and losses."""

from __future__ import annotations

from app.lessons.questions import scheduling
from app.lessons.questions.rules import Question, choice, evidence_of, numbers, rule
from app.lessons.scene import Operation, Scene, Undecided, need_op
from engine.trace.disagg_ids import plain_id
from engine.trace.log import TraceReader
from engine.trace.operations import Arrive, Await, Lost
from engine.trace.state import Sequence, State, held_blocks


def parts_of(state: State, request: int) -> tuple[Sequence | None, Sequence]:
    """Return the sequences that prefill and decode request `request` (from 0, in order of arrival).

    The first is None if there is no separate prefill. If instances were lost, the last sequence of each kind is
    returned.
    """
    names: dict[str, list[Sequence]] = {}
    for sequence in sorted(state.sequences.values(), key=lambda one: (one.submitted_in, one.seq_id)):
        if sequence.parent_seq_id is None:
            names.setdefault(plain_id(sequence.request_id), []).append(sequence)
    if request >= len(names):
        raise Undecided(f"there is no request {request} within the lesson")
    name, found = list(names.items())[request]
    first = [one for one in found if one.request_id != name]
    rest = [one for one in found if one.request_id == name]
    if not rest:
        raise Undecided(f"no instance decodes request {request} within the lesson")
    return (first[-1] if first else None), rest[-1]


def arrival(scene: Scene, request: int) -> Operation[Arrive]:
    """Return the operation that completes the request's transfer."""
    _, rest = parts_of(scene.final_state, request)
    message = f"nothing arrives for request {request} within the lesson"
    return need_op(scene.all_records(), Arrive, message, seq_id=rest.seq_id)


@rule
def bytes_moved(scene: Scene, request: int) -> Question:
    """Ask for the bytes of K and V transferred for a request: those of full blocks that the receiver does not have."""
    found, per_token = arrival(scene, request), scene.header.kv_bytes_per_token
    _, rest = parts_of(scene.final_state, request)
    tokens, size, right = rest.num_prompt_tokens, scene.block_size, found.op.num_bytes
    filled = (tokens - 1) * per_token
    wrong = [
        ("tokens" if filled < right else "everything", filled),
        ("everything", -(-(tokens - 1) // size) * size * per_token),
        ("keys", right // 2),
        ("nothing", 0),
        ("one_layer", right // scene.header.model.num_layers),
    ]
    return numbers(
        "bytes_moved",
        right,
        wrong,
        evidence_of(found, "arrive.num_bytes"),
        text="bytes",
        request=request,
        tokens=tokens,
        per_token=per_token,
        blocks=right // (size * per_token),
        block_size=size,
    )


@rule
def held_where(scene: Scene, request: int) -> Question:
    """Ask which instances hold blocks of a request during its transfer."""
    _, rest = parts_of(scene.final_state, request)
    message = f"no transfer for request {request} begins within the lesson"
    found = need_op(scene.unseen_records(), Await, message, seq_id=rest.seq_id)
    state = scene.log.state_at(found.record.index)
    first, rest = parts_of(state, request)
    there, here = bool(first and held_blocks(first)), bool(held_blocks(rest))
    right = "both" if there and here else "sender" if there else "receiver" if here else "nobody"
    options = ["sender", "receiver", "both", "nobody"]
    return choice("held_where", right, options, evidence_of(found, "await"), why=options, request=request)


def longest_gap(log: TraceReader, request: int) -> int:
    """Return the maximum number of tokens that its instance computed between two tokens of a request."""
    _, rest = parts_of(log.state_at(len(log) - 1), request)
    return scheduling.longest_gap(log, rest.seq_id, rest.instance)


@rule
def held_up(scene: Scene, request: int) -> Question:
    """Ask whether the longest gap between two tokens of a request is longer than in the previous run."""
    return scheduling.gaps_compared("held_up", scene, lambda log: longest_gap(log, request), request=request)


def prefill_seconds(log: TraceReader, seq_id: int) -> float:
    """Return the total seconds of the forward passes that computed a sequence's prompt."""
    records = [log.record(index) for index in range(len(log))]
    own = [one for one in records if any(e.seq_id == seq_id and e.phase == "prefill" for e in one.batch)]
    return sum(one.timing.forward for one in own)


@rule
def moving_or_computing(scene: Scene, request: int) -> Question:
    """Ask whether the transfer of a request's keys and values was faster than recomputing them."""
    found = arrival(scene, request)
    first, _ = parts_of(scene.final_state, request)
    if first is None:
        raise Undecided(f"request {request} was prefilled by its decode instance")
    moving, computing = found.op.ended - found.op.began, prefill_seconds(scene.log, first.seq_id)
    right = "moving" if moving < computing else "computing"
    return choice(
        "moving_or_computing",
        right,
        ["moving", "computing"],
        evidence_of(found, "arrive.ended - arrive.began against timing.forward of the prefill"),
        why=["moving", "computing"],
        request=request,
        link=found.op.link,
        moving=round(moving * 1000, 1),
        computing=round(computing * 1000, 1),
    )


@rule
def after_loss(scene: Scene, request: int) -> Question:
    """Ask what happens to a request when an instance is lost."""
    lost = need_op(scene.unseen_records(), Lost, "no instance is lost within the lesson")
    if scene.earlier is None:
        raise Undecided("there is no previous run to compare the text with")
    _, rest = parts_of(scene.final_state, request)
    _, before = parts_of(scene.earlier.state_at(len(scene.earlier) - 1), request)
    is_same = rest.token_ids == before.token_ids
    right = "aborted" if rest.finish_reason == "abort" else "same" if is_same else "other"
    options = ["same", "aborted", "other"]
    return choice("after_loss", right, options, evidence_of(lost, "lost"), why=options, request=request)
