"""docs/reference/trace-format.md names every field and operation of the types."""

from typing import get_args

import msgspec
import pytest

from engine.trace import events, records, state
from tests.conftest import ROOT

DOC = (ROOT / "docs/reference/trace-format.md").read_text(encoding="utf-8")
STRUCTS = [
    records.Header,
    records.ModelFacts,
    records.HeadPattern,
    records.TokenizerFacts,
    records.Machine,
    records.Roofs,
    records.StepRecord,
    records.Objection,
    records.BatchEntry,
    records.Output,
    records.Candidate,
    records.PromptLogprob,
    records.Timing,
    records.Memory,
    records.TierFigures,
    records.Observed,
    records.Seen,
    records.Work,
    records.Capture,
    records.LayerCapture,
    records.AttentionRows,
    state.State,
    state.Block,
    state.Sequence,
    state.CpuBlock,
    state.OutsideBlock,
    *get_args(events.Op),
]


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda s: s.__name__)
def test_every_field_is_documented(struct: type[msgspec.Struct]) -> None:
    missing = [f.name for f in msgspec.structs.fields(struct) if f"`{f.name}`" not in DOC]
    assert not missing


@pytest.mark.parametrize("op", get_args(events.Op), ids=lambda o: o.__name__)
def test_every_operation_has_a_row(op: type[msgspec.Struct]) -> None:
    assert f"| `{op.__struct_config__.tag}` |" in DOC
