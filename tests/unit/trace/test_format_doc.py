"""docs/reference/trace-format.md names every operation, and every field of the types."""

from typing import get_args

import msgspec

from engine.trace import operations, records, state
from tests.conftest import ROOT

DOC = (ROOT / "docs/reference/trace-format.md").read_text(encoding="utf-8")


def test_every_field_is_documented() -> None:
    classes = [one for module in (records, state) for one in vars(module).values() if isinstance(one, type)]
    structs = [one for one in classes if issubclass(one, msgspec.Struct)] + list(get_args(operations.Op))
    assert len(structs) > 60
    assert not [(s.__name__, name) for s in structs for name in s.__struct_fields__ if f"`{name}`" not in DOC]


def test_every_operation_has_a_row() -> None:
    assert not [op for op in get_args(operations.Op) if f"| `{op.__struct_config__.tag}` |" not in DOC]
