"""Write the types of a trace for the browser, from the types in Python.

Usage: python -m tools.trace_schema

The page's reader validates files by `static/js/core/schema.js`, and the type checker checks the page by
`static/js/core/trace.d.ts`. Both are generated from `engine/trace/records.py` and `operations.py`, so that both readers
accept the same files, and a renamed field causes a type error in the page.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import inspect

from engine.trace.records import Capture, Header, LayerCapture, StepRecord

CORE = Path(__file__).resolve().parent.parent / "static" / "js" / "core"
SCHEMA = CORE / "schema.js"
TYPES = CORE / "trace.d.ts"
COLUMNS = 118
HEAD = """\
// Written by `python -m tools.trace_schema` from the types of engine/trace, for the checks of `types.js`.
// A struct is [required fields, optional fields]; a type a name, {list}, {map}, {either}, {one} of texts, or {tagged}.

export const STRUCTS = {
"""
TYPES_HEAD = """\
// Written by `python -m tools.trace_schema` from the types of engine/trace: the records of a trace in the page.

import type { NdArray } from "./ndarray.js";

"""
IN_TYPESCRIPT = {
    "str": "string",
    "bytes": "Uint8Array",
    "bool": "boolean",
    "float": "number",
    "seconds": "number",
    "int": "number",
    "whole": "number",  # integers beyond 2^53 are rounded
    "null": "null",
    "array": "NdArray",
}
NAMES: dict[type[inspect.Type], str] = {
    inspect.StrType: "str",
    inspect.BytesType: "bytes",
    inspect.BoolType: "bool",
    inspect.FloatType: "float",
    inspect.NoneType: "null",
    inspect.CustomType: "array",
}


def schema() -> str:
    lines = [f"  {name}: {_wrapped_json(fields, '  ')},\n" for name, fields in sorted(_structs().items())]
    return HEAD + "".join(lines) + "};\n"


def types() -> str:
    structs = _structs()
    parts = [TYPES_HEAD]
    for name, (required, optional) in sorted(structs.items()):
        fields = [f"  {field}: {_in_typescript(kind)};\n" for field, kind in required.items()]
        fields += [f"  {field}?: {_in_typescript(kind)};\n" for field, kind in optional.items()]
        parts.append(f"export interface {name} {{\n{''.join(fields)}}}\n\n")
    (kinds,) = (kind["list"] for _, optional in structs.values() for name, kind in optional.items() if name == "ops")
    members = [f'  | ({name} & {{ {kinds["by"]}: "{tag}" }})\n' for tag, name in kinds["tagged"].items()]
    parts.append(f"export type Op =\n{''.join(members)};\n")
    return "".join(parts).replace("\n;\n", ";\n")


def _structs() -> dict[str, list[dict[str, Any]]]:
    structs: dict[str, list[dict[str, Any]]] = {}
    for kind in (Header, StepRecord, Capture, LayerCapture):
        _type(inspect.type_info(kind), structs)
    return structs


def _wrapped_json(value: Any, indent: str) -> str:
    """Encode as JSON, over several lines if one is too long."""
    text = json.dumps(value)
    if not isinstance(value, dict | list) or len(indent) + len(text) + 30 <= COLUMNS:
        return text
    inner = indent + "  "
    if isinstance(value, list):
        return "[\n" + "".join(f"{inner}{_wrapped_json(one, inner)},\n" for one in value) + f"{indent}]"
    items = (f"{inner}{json.dumps(key)}: {_wrapped_json(one, inner)},\n" for key, one in value.items())
    return "{\n" + "".join(items) + f"{indent}}}"


def _in_typescript(kind: Any) -> str:
    match kind:
        case str():
            return IN_TYPESCRIPT.get(kind, kind)
        case {"list": item}:
            inner = _in_typescript(item)
            return f"({inner})[]" if "|" in inner else f"{inner}[]"
        case {"map": item}:
            return f"Record<string, {_in_typescript(item)}>"
        case {"one": values}:
            union = " | ".join(json.dumps(value) for value in values)
            return union if len(union) < 80 else "".join(f"\n    | {json.dumps(value)}" for value in values)
        case {"either": kinds}:
            return " | ".join(dict.fromkeys(_in_typescript(one) for one in kinds))
        case {"tagged": _}:
            return "Op"
    raise TypeError(f"no TypeScript type for {kind!r}")


def _type(found: inspect.Type, structs: dict[str, list[dict[str, Any]]]) -> Any:
    match found:
        case inspect.StructType():
            _struct(found, structs)
            return found.cls.__name__
        case inspect.IntType():
            return "int" if found.le is not None else "whole"  # a seed may have 64 bits
        case inspect.FloatType(le=float()):
            return "seconds"
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
    required = {name: kind for name, is_required, kind in fields if is_required}
    structs[name] = [required, {name: kind for name, is_required, kind in fields if not is_required}]


def _union(found: inspect.UnionType, structs: dict[str, list[dict[str, Any]]]) -> Any:
    tagged = [kind for kind in found.types if isinstance(kind, inspect.StructType) and kind.tag_field]
    if len(tagged) == len(found.types):
        kinds = {str(kind.tag): _type(kind, structs) for kind in tagged}
        return {"tagged": kinds, "by": tagged[0].tag_field}
    return {"either": [_type(kind, structs) for kind in found.types]}


if __name__ == "__main__":
    SCHEMA.write_text(schema(), encoding="utf-8")
    TYPES.write_text(types(), encoding="utf-8")
