"""Questions about the number of tokens that steps compute, and how often they compute a position."""

from __future__ import annotations

from functools import partial

from app.lessons.questions import pictured
from app.lessons.questions.rules import Evidence, Question, numbers, rule
from app.lessons.scene import Scene, Undecided


@rule
def tokens_computed(scene: Scene, seq: int = 0) -> Question:
    """Ask for the number of tokens of a sequence that the next step computes."""
    record = scene.next_step()
    entry = scene.entry(record, seq)
    found = scene.sequence(seq)
    total, prompt, right = len(found.token_ids), found.num_prompt_tokens, len(entry.token_ids)
    wrong: list[tuple[str, float]] = [("chosen_too", right + 1)] if scene.samples_token(record, seq) else []
    if total == prompt:  # no output yet: prefill, or a chunk of it
        is_chunk = entry.start + right < total
        wrong += [("none_yet", 0), ("one_by_one", 1), ("whole" if is_chunk else "found_before", total)]
    elif not found.num_computed_tokens:
        wrong += [("prompt_alone", prompt), ("only_new", 1), ("none", 0)]
    else:
        wrong += [("all_again", total), ("none", 0)]
        if found.num_computed_tokens >= prompt:
            wrong.append(("prompt_again", prompt))
    evidence = Evidence(record=record.index, figure="len(batch.token_ids)")

    def place(count: float) -> pictured.Place:
        return pictured.first_tokens(seq, count) if count == prompt else pictured.last_tokens(seq, count, total)

    return numbers("tokens_computed", right, wrong, evidence, place=place, seq=seq)


@rule
def total_computed(scene: Scene, seq: int = 0) -> Question:
    """Ask for the number of tokens of a sequence computed in all steps up to the end of the next action.

    For P prompt tokens and n new ones it is P + n - 1 with a cache, and n·P + n(n-1)/2 without.
    """
    steps = [record for record in scene.all_records() for entry in record.batch if entry.seq_id == seq]
    if not steps:
        raise Undecided(f"nothing of sequence {seq} is computed")
    end = scene.final_state.sequences[seq]
    prompt, new = end.num_prompt_tokens, len(end.token_ids) - end.num_prompt_tokens
    if not new:
        raise Undecided(f"no token of sequence {seq} is sampled within the lesson")
    total = sum(len(entry.token_ids) for record in steps for entry in record.batch if entry.seq_id == seq)
    cached, uncached = prompt + new - 1, new * prompt + new * (new - 1) // 2
    wrong: list[tuple[str, float]] = [("as_cached" if total > cached else "not_found", cached)]
    if not scene.has_cache:
        wrong += [("prompt_each_time", new * prompt), ("square", (prompt + new) ** 2)]
        if prompt + new < total:
            wrong.insert(1, ("text_once", prompt + new))
    elif total <= cached:
        wrong += [("as_text", prompt + new), ("as_uncached", uncached)]
        if new > 1:
            wrong.append(("prompt_once", new * prompt))
    evidence = Evidence(record=steps[-1].index, figure="Σ len(batch.token_ids)")
    return numbers("total_computed", total, wrong, evidence, seq=seq, prompt=prompt, new=new)


@rule
def times_computed(scene: Scene, position: int, seq: int = 0) -> Question:
    """Ask for the number of steps that compute K and V of a position."""
    covering = scene.covering(position, seq, scene.all_records())
    if not covering:
        raise Undecided(f"position {position} of sequence {seq} is never computed")
    end = scene.final_state.sequences[seq]
    new = len(end.token_ids) - end.num_prompt_tokens
    if scene.has_cache:
        wrong = [("never", 0)] + [("each_step", count) for count in (new, len(end.token_ids)) if count > len(covering)]
    elif position < end.num_prompt_tokens:
        wrong = [("once", 1), ("each_token", len(end.token_ids)), ("one_less", new - 1)]
    else:
        wrong = [("once", 1), ("each_token", len(end.token_ids)), ("before_it", new)]
    evidence = Evidence(record=covering[-1], figure="batch.start ≤ p < batch.start + len(batch.token_ids)")
    return numbers("times_computed", len(covering), wrong, evidence, seq=seq, position=position)


@rule
def keys_read(scene: Scene, seq: int = 0) -> Question:
    """Ask for the number of keys that the next query of a sequence reads, including its own."""
    record = scene.next_step()
    entry = scene.entry(record, seq)
    found = scene.sequence(seq)
    wrong = [("not_itself", entry.context_len - 1), ("one_ahead", entry.context_len + 1), ("newest", 1)]
    if entry.context_len > found.num_prompt_tokens:
        wrong.append(("only_prompt", found.num_prompt_tokens))
    evidence = Evidence(record=record.index, figure="context_len")
    return numbers("keys_read", entry.context_len, wrong, evidence, place=partial(pictured.first_tokens, seq), seq=seq)


@rule
def tokens_chosen(scene: Scene, seq: int = 0) -> Question:
    """Ask for the number of tokens that the next step samples for a sequence. It is 0 for a chunk before the last."""
    record = scene.next_step()
    entry = scene.entry(record, seq)
    chosen = sum(1 for output in record.outputs if output.seq_id == seq)
    wrong = [("none", 0), ("one", 1), ("each" if chosen else "chunk", len(entry.token_ids))]
    evidence = Evidence(record=record.index, figure="len(outputs)")
    return numbers("tokens_chosen", chosen, wrong, evidence, seq=seq, tokens=len(entry.token_ids))


@rule
def query_uses(scene: Scene, position: int, seq: int = 0) -> Question:
    """Ask for the number of steps that use the query of a position, which are only those that compute it."""
    using = scene.covering(position, seq, scene.all_records())
    if not using:
        raise Undecided(f"position {position} of sequence {seq} is never computed")
    reading = sum(
        1
        for record in scene.all_records()
        for entry in record.batch
        if entry.seq_id == seq and entry.start + len(entry.token_ids) > position
    )
    wrong = [("never", 0)]
    if reading - 1 > len(using):
        wrong += [("each_later", reading), ("each_later_but_one", reading - 1)]
    evidence = Evidence(record=using[0], figure="rows of position")
    return numbers("query_uses", len(using), wrong, evidence, seq=seq, position=position)
