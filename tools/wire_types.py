"""Write the types of the messages between server and page, from the server's types.

Usage: python -m tools.wire_types

`static/js/core/wire.d.ts` has the socket's messages, events and acknowledgements, and the answers of /api;
`static/js/core/bench.d.ts` has those of the benchmark. A field renamed in Python causes a type error in the page.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from msgspec import inspect

from app.bench.records import BenchAnswer
from app.bench.runs import RunStatus
from app.classroom.answers import ClassDesk, ClassLeft, ClassPressed, ClassState, Mine, StoredClassesAnswer
from app.lessons.answers import LessonsAnswer
from app.log_index.comparisons import ComparedRun
from app.models.model_entry import ModelStatus
from app.recordings.endpoints import RecordingsAnswer
from app.server import api_answers
from app.server.dispatch import ALL_EVENTS
from app.session import answers, messages
from app.session.jobs import Performed
from app.transport.clients import Ack, Answer
from engine.bench.record import Record as BenchRecord
from engine.trace.compare import Comparison
from engine.trace.records import Capture, Header, LayerCapture, Machine, StepRecord
from engine.trace.residual import Projection, ResidualStream

CORE = Path(__file__).resolve().parent.parent / "static" / "js" / "core"
WIRE = CORE / "wire.d.ts"
BENCH = CORE / "bench.d.ts"
HEAD = "// Written by `python -m tools.wire_types` from the server's types: {what}.\n\n"
IN_JSON = """\
/** A value in JSON, where bytes are hexadecimal text. */
export type InJson<T> = T extends Uint8Array
  ? string
  : T extends readonly (infer U)[]
    ? InJson<U>[]
    : T extends object
      ? { [K in keyof T]: InJson<T[K]> }
      : T;

"""
NAMES: dict[type[inspect.Type], str] = {
    inspect.StrType: "string",
    inspect.BytesType: "Uint8Array",
    inspect.BoolType: "boolean",
    inspect.IntType: "number",
    inspect.FloatType: "number",
    inspect.NoneType: "null",
    inspect.DateType: "string",
    inspect.AnyType: "unknown",
    inspect.CustomType: "NdArray",
}
Fields = inspect.StructType | inspect.TypedDictType | inspect.NamedTupleType


class Module:
    """A `.d.ts` file with interfaces for the requested types and the types of their fields.

    `elsewhere`: name -> module of types in other files. A field is optional if the server may omit it
    (`omit_defaults`), or if it has a default in a message of a client.
    """

    def __init__(self, elsewhere: dict[str, str]) -> None:
        self._elsewhere = elsewhere
        self._imported: set[str] = set()
        self._interfaces: dict[str, str] = {}

    @property
    def names(self) -> Iterable[str]:
        return self._interfaces

    def text(self, what: str, more: str = "") -> str:
        """Return the text of the file: imports, interfaces by name, and `more`."""
        parts = [HEAD.format(what=what)]
        for module in sorted({self._elsewhere[name] for name in self._imported}):
            names = ", ".join(sorted(name for name in self._imported if self._elsewhere[name] == module))
            parts.append(f'import type {{ {names} }} from "{module}";\n')
        parts += ["\n", *(text for _, text in sorted(self._interfaces.items())), more]
        return "".join(parts)

    def type_of(self, kind: Any) -> str:
        """Return the TypeScript type of a Python type."""
        return self._type(inspect.type_info(kind))

    def _type(self, found: inspect.Type) -> str:
        match found:
            case inspect.Metadata(extra={"fields_of": kind, "words": words}):
                texts = "".join(f" {name}: {self.type_of(by_language)};" for name, by_language in words.items())
                return f"({self.type_of(kind)} & {{{texts} }})"
            case inspect.Metadata(extra={"fields_of": kind}):
                return self.type_of(kind)
            case inspect.Metadata():
                return self._type(found.type)
            case inspect.StructType() | inspect.TypedDictType() | inspect.NamedTupleType():
                return self._interface(found)
            case inspect.ListType() | inspect.VarTupleType():
                inner = self._type(found.item_type)
                return f"({inner})[]" if "|" in inner else f"{inner}[]"
            case inspect.DictType():
                return f"Record<string, {self._type(found.value_type)}>"
            case inspect.LiteralType():
                return " | ".join(json.dumps(value) for value in found.values)
            case inspect.UnionType():
                return " | ".join(dict.fromkeys(self._type(kind) for kind in found.types))
        if isinstance(found, inspect.CustomType):
            self._imported.add("NdArray")
        return NAMES[type(found)]

    def _interface(self, found: Fields) -> str:
        name = _name(found.cls)
        if name in self._elsewhere:
            name = "Op" if isinstance(found, inspect.StructType) and found.tag_field else name  # with its `type`
            self._imported.add(name)
        elif name not in self._interfaces:
            self._interfaces[name] = ""  # types may be recursive
            lines = [f"  {field}: {kind};\n" for field, kind in self._fields(found)]
            self._interfaces[name] = f"export interface {name} {{\n{''.join(lines)}}}\n\n"
        return name

    def _fields(self, found: Fields) -> Iterable[tuple[str, str]]:
        is_message = issubclass(found.cls, messages.Message)
        if isinstance(found, inspect.StructType) and found.tag_field:
            yield found.tag_field, json.dumps(found.tag)
        for field in found.fields:
            omitted = isinstance(found, inspect.StructType) and found.cls.__struct_config__.omit_defaults
            optional = not field.required and (is_message or omitted or isinstance(found, inspect.TypedDictType))
            yield field.encode_name + ("?" if optional else ""), self._type(field.type)


def _name(kind: type[Any]) -> str:
    """Return the TypeScript name of a type. Messages get a suffix, and `Record` is a name of TypeScript."""
    if kind is BenchRecord:
        return "BenchRecord"
    return f"{kind.__name__}Message" if issubclass(kind, messages.OfSession) else kind.__name__


def _of_trace() -> dict[str, str]:
    """Return the types in trace.d.ts, by module."""
    trace = Module({})
    for kind in (Header, StepRecord, Capture, LayerCapture):
        trace.type_of(kind)
    return {**dict.fromkeys([*trace.names, "Op"], "./trace.js"), "NdArray": "./ndarray.js"}


def bench_types() -> str:
    return _bench().text("the benchmark's records and progress")


def _bench() -> Module:
    bench = Module(_of_trace())
    for kind in (BenchRecord, RunStatus, BenchAnswer):
        bench.type_of(kind)
    return bench


def wire_types() -> str:
    wire = Module({**_of_trace(), "RunStatus": "./bench.js", "BenchAnswer": "./bench.js"})
    events = [
        f"  {name}: {{ request: {wire.type_of(event.message)}; answer: {_answer(wire, name, event.handle)} }};\n"
        for name, event in ALL_EVENTS.items()
    ]
    pushed = {
        "records": answers.Records,
        "status": answers.Status,
        "reset": answers.Reset,
        "large": answers.Large,
        "closed": answers.Closed,
        "model": ModelStatus,
        "bench_progress": RunStatus,
        "class": ClassState,
        "class_desk": ClassDesk,
        "class_mine": Mine,
        "class_left": ClassLeft,
        "class_pressed": ClassPressed,
    }
    for as_bytes in (ResidualStream, Projection):  # in an acknowledgement
        wire.type_of(as_bytes)
    addresses = {
        "/api/model": wire.type_of(api_answers.ModelAnswer),
        "/api/models": wire.type_of(api_answers.ModelsAnswer),
        "/api/machine": wire.type_of(Machine),
        "/api/theaters": wire.type_of(api_answers.SessionsAnswer),
        "/api/recordings": wire.type_of(RecordingsAnswer),
        "/api/compare": f"{wire.type_of(Comparison)} & {{ runs: {wire.type_of(ComparedRun)}[] }}",
        "/api/lessons": wire.type_of(LessonsAnswer),
        "/api/classes": wire.type_of(StoredClassesAnswer),
        "/api/bench": wire.type_of(BenchAnswer),
    }
    more = [
        "/** Events of the socket: the client's arguments and the acknowledgement. */\n",
        f"export interface Events {{\n{''.join(events)}}}\n\n",
        "/** Events that the server pushes. */\nexport interface ServerEvents {\n",
        *(f"  {name}: {wire.type_of(kind)};\n" for name, kind in pushed.items()),
        f"}}\n\n{IN_JSON}/** Answers by address. */\nexport interface Answers {{\n",
        *(f'  "{address}": InJson<{kind}>;\n' for address, kind in addresses.items()),
        "}\n",
    ]
    return wire.text("messages, acknowledgements and answers", "".join(more))


def _answer(wire: Module, event: str, handle: Any) -> str:
    """Return the type of an event's acknowledgement, by its handler's return type."""
    kind = get_type_hints(handle)["return"]
    if kind is Answer:  # of `create` and `join`
        return wire.type_of(answers.Joined)
    if get_origin(kind) is Future and get_args(kind) == (Performed,):
        return wire.type_of(Performed)
    if kind == Ack and event.startswith("bench_"):
        return f"{{ status: {wire.type_of(RunStatus)} }}"
    if not typing.is_typeddict(kind):
        raise TypeError(f"the handler of {event} must return a typed dictionary, got {kind}")
    return wire.type_of(kind)


if __name__ == "__main__":
    WIRE.write_text(wire_types(), encoding="utf-8")
    BENCH.write_text(bench_types(), encoding="utf-8")
