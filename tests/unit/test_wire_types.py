"""The browser's types of messages and traces are generated from the server's types."""

from typing import TypedDict

from msgspec import Struct

from tools.trace_schema import SCHEMA, TYPES, schema, types
from tools.wire_types import BENCH, WIRE, Module, bench_types, wire_types


def test_the_generated_wire_types_are_up_to_date() -> None:
    assert WIRE.read_text(encoding="utf-8") == wire_types(), "run `python -m tools.wire_types`"
    assert BENCH.read_text(encoding="utf-8") == bench_types(), "run `python -m tools.wire_types`"


class Inner(Struct, omit_defaults=True):
    size: int
    name: str = ""


class Outer(TypedDict):
    inner: list[Inner | None]
    bytes: bytes


def test_a_struct_in_a_map_is_written_in_typescript() -> None:
    module = Module({})
    assert module.type_of(dict[str, Outer]) == "Record<string, Outer>"
    assert module.text("both") == (
        "// Written by `python -m tools.wire_types` from the server's types: both.\n\n\n"
        "export interface Inner {\n  size: number;\n  name?: string;\n}\n\n"
        "export interface Outer {\n  bytes: Uint8Array;\n  inner: (Inner | null)[];\n}\n\n"
    )


def test_the_generated_trace_schema_is_up_to_date() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema(), "run `python -m tools.trace_schema`"
    assert TYPES.read_text(encoding="utf-8") == types(), "run `python -m tools.trace_schema`"
