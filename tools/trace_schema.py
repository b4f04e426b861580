"""Write the types of a trace for the browser: `static/js/core/schema.js`, from the types that Python reads with.

Usage: python -m tools.trace_schema

A field that one reader checks and the other takes as it comes is a way for a file to be two things. So there is one
table: the types in `engine/trace/records.py` and `events.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import inspect

from engine.trace.records import Capture, Header, LayerCapture, StepRecord

SCHEMA = Path(__file__).resolve().parent.parent / "static" / "js" / "trace" / "schema.js"
HEAD = """\
// Written by `python -m tools.trace_schema` from the types of engine/trace: what `types.js` holds values to.
// A struct is [required fields, optional fields]; a type a name, {list}, {map}, {either}, {one} of texts, or {tagged}.

export const STRUCTS = {
"""
NAMES: dict[type[inspect.Type], str] = {
    inspect.StrType: "str",
    inspect.BytesType: "bytes",
    inspect.BoolType: "bool",
    inspect.FloatType: "float",
    inspect.NoneType: "null",
    inspect.CustomType: "array",
}


def schema() -> str:
    """The module's text."""
    structs: dict[str, list[dict[str, Any]]] = {}
    for kind in (Header, StepRecord, Capture, LayerCapture):
        _type(inspect.type_info(kind), structs)
    lines = [f"  {name}: {json.dumps(fields)},\n" for name, fields in sorted(structs.items())]
    return HEAD + "".join(lines) + "};\n"


def _type(found: inspect.Type, structs: dict[str, list[dict[str, Any]]]) -> Any:
    match found:
        case inspect.StructType():
            _struct(found, structs)
            return found.cls.__name__
        case inspect.IntType():
            return "int" if found.le is not None else "whole"  # a seed may have 64 bits
        case inspect.ListType():
            return {"list": _type(found.item_type, structs)}
        case inspect.DictType():
            return {"map": _type(found.value_type, structs)}
        case inspect.LiteralType():
            return {"one": list(found.values)}
        case inspect.UnionType():
            return _union(found, structs)
    return NAMES[type(found)]


def _struct(found: inspect.StructType, structs: dict[str, list[dict[str, Any]]]) -> None:
    name = found.cls.__name__
    if name in structs:
        return
    structs[name] = []
    fields = [(field.encode_name, field.required, _type(field.type, structs)) for field in found.fields]
    required = {name: kind for name, must, kind in fields if must}
    structs[name] = [required, {name: kind for name, must, kind in fields if not must}]


def _union(found: inspect.UnionType, structs: dict[str, list[dict[str, Any]]]) -> Any:
    tagged = [kind for kind in found.types if isinstance(kind, inspect.StructType) and kind.tag_field]
    if len(tagged) == len(found.types):
        kinds = {str(kind.tag): _type(kind, structs) for kind in tagged}
        return {"tagged": kinds, "by": tagged[0].tag_field}
    return {"either": [_type(kind, structs) for kind in found.types]}


if __name__ == "__main__":
    SCHEMA.write_text(schema(), encoding="utf-8")
