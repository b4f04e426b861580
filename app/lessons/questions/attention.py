"""Questions about rows of attention weights: visible keys, and the effect of another token."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.lessons.questions.rules import Evidence, Question, choice, numbers, rule
from app.lessons.scene import Scene, Undecided
from engine.trace.log import TraceReader

TOLERANCE = 1e-5  # of weights whose float32 sums were computed in another order


def _row(log: TraceReader, seq: int, position: int, layer: int) -> tuple[int, np.ndarray[Any, Any]] | None:
    """Return the record and the weights [H, keys] of a query in one layer, or None if they were not recorded."""
    for index in range(len(log)):
        for entry in log.record(index).batch:
            if entry.seq_id == seq and entry.start <= position < entry.start + len(entry.token_ids):
                capture = log.capture(index)
                for arrays in capture.layers if capture else []:
                    for rows in arrays.rows:
                        if arrays.layer == layer and rows.seq_id == seq:
                            at = position - rows.query_start
                            if 0 <= at < rows.weights.shape[1]:
                                return index, rows.weights[:, at, : position + 1 - rows.key_start]
    return None


@rule
def row_zero(scene: Scene, layer: int = 0, seq: int = 0) -> Question:
    """Ask for the weight in the row of the first token, which attends only to itself."""
    found = _row(scene.log, seq, 0, layer)
    if found is None:
        raise Undecided(f"the first row of layer {layer} was not recorded")
    weight = round(float(found[1][0, 0]), 4)
    model = scene.header.model
    length = scene.final_state.sequences[seq].num_prompt_tokens
    wrong = [("nothing", 0.0), ("shared", round(1 / length, 4)), ("per_head", round(1 / model.num_heads, 4))]
    evidence = Evidence(record=found[0], figure="softmax of one value")
    return numbers("row_zero", weight, wrong, evidence, seq=seq, layer=layer)


@rule
def row_changes(scene: Scene, position: int, seq: int = 0) -> Question:
    """Ask in which layers the row of an earlier position changes when a later token changes."""
    if scene.earlier is None:
        raise Undecided("there is no previous run")
    changed = -1
    record = None
    for layer in range(scene.header.model.num_layers):
        before, now = (_row(log, seq, position, layer) for log in (scene.earlier, scene.log))
        if before is None or now is None:
            continue
        record = now[0]
        if float(np.max(np.abs(before[1] - now[1]))) > TOLERANCE:
            changed = layer
            break
    if record is None:
        raise Undecided(f"the row of position {position} was not recorded in both runs")
    options = ["none", "first", "last", "all"]
    last = scene.header.model.num_layers - 1
    right = "none" if changed < 0 else "all" if changed == 0 else "last" if changed == last else "first"
    evidence = Evidence(record=record, figure="max |row before − row now|, all layers")
    return choice("row_changes", right, options, evidence, why=options, seq=seq, position=position)
