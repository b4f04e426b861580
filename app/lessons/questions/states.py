"""Questions about recurrent layers: bytes held, break-even length, and recall."""

from __future__ import annotations

from app.lessons.questions.pictured import AtBytes, nowhere
from app.lessons.questions.rules import Evidence, Question, choice, numbers, rule
from app.lessons.scene import Scene, Undecided

REPEATED = 4  # tokens at the end of a prompt that also occur earlier in it


@rule
def bytes_with_state(scene: Scene) -> Question:
    """Ask for the bytes that a sequence holds after the next action: blocks of keys and values, and one state of the
    recurrent layers.
    """
    record = scene.log.record(len(scene.log) - 1)
    memory, model = record.memory, scene.header.model
    state = model.state_bytes
    if not state or memory.state_blocks_held != 1:
        raise Undecided(f"the run must hold one state, but holds {memory.state_blocks_held}")
    right = memory.bytes_held
    keys = right - state
    wrong = [
        ("all_layers", keys // model.num_layers * len(model.layer_kinds)),
        ("state_each", keys + state * memory.tokens_held),
        ("only_keys", keys),
        ("only_state", state),
    ]
    evidence = Evidence(record=record.index, figure="blocks of keys · block_size · kv_bytes_per_token + state_bytes")
    return numbers(
        "bytes_with_state",
        right,
        wrong,
        evidence,
        text="bytes",
        place=lambda n: AtBytes(bytes=int(n)),
        layers=len(model.layer_kinds),
        states=len(model.layer_kinds) - model.num_layers,
        state=state,
        token=scene.header.kv_bytes_per_token,
        tokens=memory.tokens_held,
    )


@rule
def lighter_from(scene: Scene) -> Question:
    """Ask for the length from which on this run holds fewer bytes than the previous one."""
    if scene.earlier is None or not scene.header.model.state_bytes:
        raise Undecided("there is no previous run, or the model of this run has no states")
    own, state, block = scene.header.kv_bytes_per_token, scene.header.model.state_bytes, scene.block_size
    before = scene.earlier.header.kv_bytes_per_token
    common = min(len(scene.log), len(scene.earlier))
    for index in range(scene.now, common):
        memory, earlier = (log.record(index).memory for log in (scene.log, scene.earlier))
        if memory.tokens_held == earlier.tokens_held and 0 < memory.bytes_held < earlier.bytes_held:
            break
    else:
        raise Undecided("the run never holds fewer bytes than the previous run at the same length")
    wrong = [
        ("no_keys", state // before + 1),
        ("only_own", state // own + 1),
        ("at_once", scene.log.record(scene.now - 1).memory.tokens_held + 1),
        ("block_later", memory.tokens_held + block),
    ]
    evidence = Evidence(record=index, figure="bytes_held of both runs")
    return numbers(
        "lighter_from", memory.tokens_held, wrong, evidence, place=nowhere, state=state, own=own, before=before
    )


@rule
def recalled(scene: Scene, seq: int = 0) -> Question:
    """Ask whether the model samples the token that followed the earlier occurrence of the prompt's last tokens."""
    sequence = scene.final_state.sequences.get(seq)
    if sequence is None or len(sequence.token_ids) <= sequence.num_prompt_tokens:
        raise Undecided(f"no token is sampled for sequence {seq} within the lesson")
    prompt, chosen = sequence.token_ids[: sequence.num_prompt_tokens], sequence.token_ids[sequence.num_prompt_tokens]
    before = _earlier_occurrence(prompt)
    if before is None:
        raise Undecided(f"the last {REPEATED} tokens of the prompt of sequence {seq} do not occur earlier")
    found = next(record.index for record in scene.all_records() for output in record.outputs if output.seq_id == seq)
    right = "yes" if chosen == prompt[before] else "no"
    evidence = Evidence(record=found, figure="outputs.token_id")
    back = len(prompt) - before
    return choice("recalled", right, ["yes", "no"], evidence, why=["yes", "no"], repeated=REPEATED, back=back)


def _earlier_occurrence(prompt: list[int]) -> int | None:
    """Return the position after the last earlier occurrence of the prompt's last tokens, or None."""
    size, end = REPEATED, len(prompt)
    places = (at for at in range(end - size - 1, -1, -1) if prompt[at : at + size] == prompt[end - size :])
    found = next(places, None)
    return None if found is None else found + size
