"""The check finds contradictions of a budget, a pinned token or a mask. The golden trace has none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from engine.trace.check_forgetting import ForgettingChecker
from engine.trace.log import TraceReader
from engine.trace.operations import Forget, Keep

GOLDEN = Path(__file__).parents[2] / "golden" / "forgetting.kvtrace"


def findings(change: Callable[[Forget], Forget] = lambda op: op, all_weights: bool = False) -> list[str]:
    """Check the golden trace with each `Forget` changed, or with weight on every key."""
    found = []
    with TraceReader(GOLDEN) as log:
        checker = ForgettingChecker(log.header)
        for index in range(len(log)):
            record = log.record(index)
            ops = [change(op) if isinstance(op, Forget) else op for op in record.ops]
            found += [message for _, message in checker.wrong_in(replace(record, ops=ops))]
            if capture := log.capture(index):
                layers = [
                    replace(one, rows=[replace(row, weights=np.ones_like(row.weights)) for row in one.rows])
                    for one in capture.layers
                ]
                found += checker.wrong_in_capture(replace(capture, layers=layers) if all_weights else capture)
    return found


def test_the_golden_trace_has_no_finding() -> None:
    assert findings() == []


def forget_pinned(op: Forget) -> Forget:
    """Replace a forgotten position by the pinned one of the golden trace."""
    return replace(op, positions=[[14, *row[1:]] if row and op.seq_id == 0 else row for row in op.positions])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda op: replace(op, positions=[row[1:] for row in op.positions]), "but forget_budget is 5"),
        (lambda op: replace(op, positions=[[0] * len(row) for row in op.positions]), "forgets a token twice"),
        (lambda op: replace(op, scores=[[9.0] * len(row) for row in op.scores]), "forgets a token with score 9.0"),
        (lambda op: replace(op, layer=99), "layer 99"),
        (forget_pinned, "forgets position 14, which a keep operation protects"),
    ],
)
def test_a_changed_decision_is_found(change: Callable[[Forget], Forget], expected: str) -> None:
    assert any(expected in message for message in findings(change))


def test_weight_on_a_forgotten_key_is_found() -> None:
    assert any("gives weight to a key that it has forgotten" in message for message in findings(all_weights=True))


def test_a_forgotten_token_cannot_be_pinned() -> None:
    with TraceReader(GOLDEN) as log:
        checker = ForgettingChecker(log.header)
        records = [log.record(index) for index in range(len(log))]
        at, op = next((r, op) for r in records for op in r.ops if isinstance(op, Forget) and any(op.positions))
        position = next(row[0] for row in op.positions if row)
        for record in records[: at.index + 1]:
            assert not list(checker.wrong_in(record))
        late = replace(at, ops=[Keep(seq_id=op.seq_id, position=position)])
        assert [message for _, message in checker.wrong_in(late)] == [f"keep: position {position} is forgotten already"]
