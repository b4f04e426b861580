"""Questions about the step and the slot in which keys and values are written."""

from __future__ import annotations

from functools import partial

from app.lessons.questions import pictured
from app.lessons.questions.rules import Evidence, Question, Value, choice, evidence_of, numbers, rule
from app.lessons.scene import Operation, Scene, Undecided, find_op, need_op
from engine.trace.operations import Cache, Finish, Sample, Write


def _written(scene: Scene, position: int, seq: int) -> Operation[Write]:
    """Return the first write of a position."""
    for record in scene.all_records():
        for place, op in enumerate(record.ops):
            if isinstance(op, Write) and op.seq_id == seq and op.start <= position < op.start + op.num_tokens:
                return Operation(record, place, op)
    raise Undecided(f"position {position} of sequence {seq} is not written within the lesson")


@rule
def where_now(scene: Scene, seq: int = 0) -> Question:
    """Ask where K and V of the token sampled last are. They are not computed yet."""
    found = scene.sequence(seq)
    if found.num_computed_tokens != len(found.token_ids) - 1 or found.status != "running":
        raise Undecided(f"sequence {seq} has no sampled token that is not computed yet")
    position, size = len(found.token_ids) - 1, scene.block_size
    message = f"no token of sequence {seq} was sampled yet"
    chosen = need_op(reversed(list(scene.seen_records())), Sample, message, seq_id=seq)
    table = found.block_tables[0]
    last = position - 1
    block = table[last // size]
    spots: dict[str, dict[str, Value]] = {
        "last": {"block": block, "slot": last % size},
        "next": {"block": max(table) + 1 if position % size == 0 else block, "slot": position % size},
    }
    return choice(
        "where_now",
        "nowhere",
        ["nowhere", "next", "last"],
        evidence_of(chosen, "no write of this position"),
        why=["next", "last"],
        of_options=spots,
        places={key: pictured.slot(scene, int(s["block"]) * size + int(s["slot"])) for key, s in spots.items()},
        seq=seq,
        token=found.token_bytes[position].decode("utf-8", "replace"),
        position=position,
    )


@rule
def written_in(scene: Scene, position: int, seq: int = 0) -> Question:
    """Ask for the step in which K and V of a position are written: the one after the step that sampled the token."""
    written = _written(scene, position, seq)
    chosen = None
    for record in scene.all_records():
        if any(isinstance(op, Sample) and op.seq_id == seq for op in record.ops):
            state = scene.log.state_at(record.index)
            if len(state.sequences[seq].token_ids) - 1 == position:
                chosen = record.step
                break
    step = written.record.step
    wrong = [("later", step + 1)]
    if chosen is not None:
        wrong = [("when_chosen", chosen), *wrong, ("prefill", 1)]

    def place(number: float) -> pictured.Place:
        return pictured.AtStep(step=int(number))

    evidence = evidence_of(written, "write")
    return numbers("written_in", step, wrong, evidence, text="step", place=place, seq=seq, position=position)


@rule
def slot(scene: Scene, position: int, seq: int = 0) -> Question:
    """Ask for the slot of a position: block id · block size + position mod block size."""
    written = _written(scene, position, seq)
    size = scene.block_size
    table = scene.log.state_at(written.record.index).sequences[seq].block_tables[0]
    block = table[position // size]
    right = block * size + position % size
    wrong = [
        ("logical", position),
        ("next_slot", right + 1),
        ("next_block", (block + 1) * size + position % size),
        ("block_start", block * size),
    ]
    evidence = evidence_of(written, "block_id · block_size + p mod block_size")
    place = partial(pictured.slot, scene)
    return numbers("slot", right, wrong, evidence, place=place, seq=seq, position=position, block_size=size)


@rule
def hashed(scene: Scene, logical: int, seq: int = 0) -> Question:
    """Ask whether a block of a sequence gets a hash in the next action. Only full blocks do."""
    found = find_op(scene.unseen_records(), Cache, seq_id=seq, logical=logical)
    after = scene.final_state.sequences[seq]
    if logical >= len(after.block_tables[0]):
        raise Undecided(f"sequence {seq} has no block {logical}")
    filled = min(scene.block_size, max(0, after.num_computed_tokens - logical * scene.block_size))
    evidence = evidence_of(found, "cache") if found else Evidence(record=len(scene.log) - 1, figure="block_hash")
    right = "yes" if found else "no"
    return choice(
        "hashed",
        right,
        ["yes", "no"],
        evidence,
        why=["yes", "no"],
        seq=seq,
        logical=logical,
        filled=filled,
        block_size=scene.block_size,
    )


@rule
def cached_at_end(scene: Scene, seq: int = 0) -> Question:
    """Ask for the number of output tokens in the cache when a sequence ends: all but the one sampled last."""
    message = f"sequence {seq} does not finish within the lesson"
    found = need_op(scene.all_records(), Finish, message, seq_id=seq)
    state = scene.log.state_at(found.record.index).sequences[seq]
    new = len(state.token_ids) - state.num_prompt_tokens
    right = state.num_computed_tokens - state.num_prompt_tokens
    wrong = [("all", new), ("none", 0), ("two_less", new - 2)]
    evidence = evidence_of(found, "finish.num_computed_tokens")
    prompt = state.num_prompt_tokens

    def place(count: float) -> pictured.Place:
        return pictured.first_tokens(seq, count, after=prompt)

    return numbers("cached_at_end", right, wrong, evidence, place=place, seq=seq, new=new, prompt=prompt)
