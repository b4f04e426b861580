"""The browser's types of a trace are those that Python reads with."""

from tools.trace_schema import SCHEMA, TYPES, schema, types


def test_the_table_is_the_one_that_the_types_make() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema(), "run `python -m tools.trace_schema`"
    assert TYPES.read_text(encoding="utf-8") == types(), "run `python -m tools.trace_schema`"
