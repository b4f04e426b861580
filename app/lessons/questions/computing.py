"""Who computes what, and how often."""

from __future__ import annotations

from functools import partial

from app.lessons.questions import places
from app.lessons.questions.rules import Evidence, Question, numbers, rule
from app.lessons.scene import Scene, Undecided


@rule
def tokens_computed(scene: Scene, seq: int = 0) -> Question:
    """Tokens of a sequence that the next step computes."""
    record = scene.next_step()
    entry = scene.entry(record, seq)
    found = scene.sequence(seq)
    total = len(found.token_ids)
    kept = "prompt_again" if found.num_computed_tokens else "prompt_alone"
    wrong = [("all_again", total), (kept, found.num_prompt_tokens), ("only_new", 1), ("both", 2), ("none", 0)]
    evidence = Evidence(record=record.index, figure="len(batch.token_ids)")
    prompt = found.num_prompt_tokens

    def place(count: float) -> places.Place:
        return places.first_tokens(seq, count) if count == prompt else places.last_tokens(seq, count, total)

    return numbers("tokens_computed", len(entry.token_ids), wrong, evidence, place=place, seq=seq)


@rule
def total_computed(scene: Scene, seq: int = 0) -> Question:
    """Tokens of a sequence computed in all steps up to the end of what comes.

    Without a cache n·P + n(n-1)/2, with one P + n - 1, where P prompt tokens make n new ones.
    """
    steps = [record for record in scene.all() for entry in record.batch if entry.seq_id == seq]
    if not steps:
        raise Undecided(f"nothing of sequence {seq} is computed")
    end = scene.after.sequences[seq]
    prompt, new = end.num_prompt_tokens, len(end.token_ids) - end.num_prompt_tokens
    total = sum(len(entry.token_ids) for record in steps for entry in record.batch if entry.seq_id == seq)
    wrong = [
        ("as_cached", prompt + new - 1),
        ("as_text", prompt + new),
        ("prompt_each_time", new * prompt),
        ("square", (prompt + new) ** 2),
        ("as_uncached", new * prompt + new * (new - 1) // 2),
    ]
    evidence = Evidence(record=steps[-1].index, figure="Σ len(batch.token_ids)")
    return numbers("total_computed", total, wrong, evidence, seq=seq, prompt=prompt, new=new)


@rule
def times_computed(scene: Scene, position: int, seq: int = 0) -> Question:
    """In how many steps K and V of a position are computed, as far as the run comes."""
    covering = scene.covering(position, seq, scene.all())
    if not covering:
        raise Undecided(f"position {position} of sequence {seq} is never computed")
    end = scene.after.sequences[seq]
    new = len(end.token_ids) - end.num_prompt_tokens
    wrong = [("once", 1), ("each_step", new), ("each_token", len(end.token_ids)), ("one_less", new - 1)]
    evidence = Evidence(record=covering[-1], figure="batch.start ≤ p < batch.start + len(batch.token_ids)")
    return numbers("times_computed", len(covering), wrong, evidence, seq=seq, position=position)


@rule
def keys_read(scene: Scene, seq: int = 0) -> Question:
    """Keys that the next query of a sequence reads: its own too."""
    record = scene.next_step()
    entry = scene.entry(record, seq)
    found = scene.sequence(seq)
    wrong = [
        ("not_itself", entry.context_len - 1),
        ("one_ahead", entry.context_len + 1),
        ("only_prompt", found.num_prompt_tokens),
        ("newest", 1),
    ]
    evidence = Evidence(record=record.index, figure="context_len")
    return numbers("keys_read", entry.context_len, wrong, evidence, place=partial(places.first_tokens, seq), seq=seq)


@rule
def tokens_chosen(scene: Scene, seq: int = 0) -> Question:
    """Tokens that the next step chooses for a sequence: prefill chooses one, a chunk that is not the last none."""
    record = scene.next_step()
    entry = scene.entry(record, seq)
    chosen = sum(1 for output in record.outputs if output.seq_id == seq)
    wrong = [("none", 0), ("one", 1), ("each", len(entry.token_ids))]
    evidence = Evidence(record=record.index, figure="len(outputs)")
    return numbers("tokens_chosen", chosen, wrong, evidence, seq=seq, tokens=len(entry.token_ids))


@rule
def query_uses(scene: Scene, position: int, seq: int = 0) -> Question:
    """In how many steps the query of a position is used: in those that compute it, and never again."""
    using = scene.covering(position, seq, scene.all())
    if not using:
        raise Undecided(f"position {position} of sequence {seq} is never computed")
    reading = sum(
        1
        for record in scene.all()
        for entry in record.batch
        if entry.seq_id == seq and entry.start + len(entry.token_ids) > position
    )
    wrong = [("each_later", reading), ("each_later_but_one", reading - 1), ("never", 0)]
    evidence = Evidence(record=using[0], figure="rows of position")
    return numbers("query_uses", len(using), wrong, evidence, seq=seq, position=position)
