"""Questions about the effect of a change on the generated text."""

from __future__ import annotations

from app.lessons.questions import pictured
from app.lessons.questions.rules import Evidence, Question, choice, numbers, rule
from app.lessons.scene import Scene, Undecided
from engine.trace.compare import compare


@rule
def same_text(scene: Scene) -> Question:
    """Ask whether every sequence has the same text as in the previous run, up to the end of the shorter one."""
    if scene.earlier is None:
        raise Undecided("there is no previous run")
    found = compare(scene.earlier, scene.log).first_token
    right = "same" if found is None else "different"
    token = found.b if found else None
    record = token.record if token else len(scene.log) - 1
    evidence = Evidence(record=record, figure="tokens of both runs")
    return choice("same_text", right, ["same", "different"], evidence, why=["same", "different"])


@rule
def first_difference(scene: Scene, seq: int = 0) -> Question:
    """Ask for the position of the first token that differs from the previous run."""
    if scene.earlier is None:
        raise Undecided("there is no previous run")
    pair = next((p for p in compare(scene.earlier, scene.log).sequences if p.b and p.b.seq_id == seq), None)
    if pair is None or pair.difference is None:
        raise Undecided(f"sequence {seq} has the same text in both runs")
    at = pair.difference.position
    prompt = len(pair.b.prompt_token_ids) if pair.b else 0
    window = scene.header.engine.get("attention_window")
    wrong = [("first_output", prompt), ("at_window", int(window) if isinstance(window, int) else at + 4)]
    token = pair.difference.b or pair.difference.a
    evidence = Evidence(record=token.record if token else 0, figure="first token that differs")

    def place(position: float) -> pictured.Place:
        return pictured.first_tokens(seq, 1, after=int(position))

    return numbers("first_difference", at, wrong, evidence, text="position", place=place, seq=seq)
