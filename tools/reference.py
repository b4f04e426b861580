"""Write the reference pages of the documentation from the code.

Usage: python -m tools.reference

Each page of `PAGES` is a file in docs/reference/. A test compares the committed files with this tool's output.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct

import kvtheater
from app.cli import build_parser
from app.ground.paths import data_dir
from app.metrics import client_queues, names
from app.metrics.http import REFUSED
from app.openai import bodies, endpoints
from app.openai.messages_request import CountTokensBody, MessagesBody
from app.openai.responses_request import ResponsesBody
from app.server.dispatch import ALL_EVENTS
from app.session.messages import Message
from engine.config import EngineConfig, SamplingParams
from engine.options.table import OptionRow, table_of
from engine.options.words import OptionWords, words_in
from engine.prompts.policies import Policy, policies

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
INTRO = {
    "options.md": """\
# Options

Every option of the engine and of a request. The command line has a flag of the same name with dashes, the page a
control, `kvtheater.EngineConfig` and `kvtheater.SamplingParams` a field. Names follow vLLM's where vLLM has the
option.

""",
    "command-line.md": """\
# Command line

Exit status: 0 on success, 1 when a command reports a finding (a damaged trace, a difference), 2 for a wrong argument.
`kvtheater COMMAND --help` prints the same text.

""",
    "socket-events.md": """\
# Socket events

The messages that a client may send, with the type and default of each field. Unknown fields are refused. The
[protocol](protocol.md) explains what each event does, what it is acknowledged with, and what the server sends.

""",
    "openai-api.md": """\
# OpenAI API

Served by `kvtheater serve --api`. [How to use it](../how-to/openai-api.md) explains keys, streams and headers.

""",
    "metrics.md": """\
# Metrics

`GET /metrics` in the formats of Prometheus and OpenMetrics. `vllm:` metrics have the names, meanings and buckets of
vLLM 0.32. Every series has the labels `model_name` and `engine`. The names of counters end in `_total` on the wire.
[How to monitor a server](../how-to/monitor.md) explains how they are counted.

""",
    "cache-policies.md": """\
# Cache policies

Rules of the caches that [`kvtheater prompts`](../how-to/prompts.md) simulates, each with its source. Undocumented rules
are left out.

""",
    "python.md": """\
# Python interface

The stable names of `kvtheater`. Each is imported on first use, because torch takes seconds to load; opening a trace
needs no torch. `engine` and `app` are internal.

""",
}
MARK = "<!-- Written by python -m tools.reference. Edit the code, not this page. -->\n\n"
LARGE = 2**53 - 1  # larger bounds only keep numbers exact in JSON, and are not shown
SHARED = {"engine": EngineConfig, "sampling": SamplingParams}  # groups of flags that options.md describes


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. Escapes bars and line ends in cells."""
    lines = [head, ["---"] * len(head), *rows]
    cells = [[re.sub(r"\s*\n\s*", " ", cell).replace("|", "\\|") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells) + "\n"


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def sentence(text: str) -> str:
    """Capitalize `text` and add a full stop."""
    text = text.strip().replace("<", "&lt;")
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?', ':')) else '.'}"


# --- options


def options() -> str:
    """Return the table of engine and sampling options."""
    parts = []
    for title, settings in (("Engine", EngineConfig), ("Sampling", SamplingParams)):
        rows = [_option(row, words_in("en")[name]) for name, row in table_of(settings).items()]
        parts += [f"## {title}\n\n", table(("option", "type", "default", "allowed", "meaning"), rows)]
    return "".join(parts)


def _option(row: OptionRow, words: OptionWords) -> tuple[str, ...]:
    more = [f"`{value}`: {text}" for value, text in words.values_help.items()]
    if row.option.strategies:
        more.append(f"Applies under {', '.join(map(code, row.option.strategies))}.")
    if row.option.beside:
        more.append(f"Needs `{row.option.beside}`.")
    if not row.option.flag:
        more.append("Has no flag.")
    default = "none" if row.default is None else str(row.default)
    if isinstance(row.default, bool):
        default = "on" if row.default else "off"
    elif isinstance(row.default, list | dict):
        default = "empty"
    allowed = ", ".join(map(code, row.choices)) or row.option.range_text()
    meaning = sentence(words.help) + (f" None: {words.none}." if words.none else "")
    return code(row.name), row.kind, default, allowed, " ".join([meaning, *more])


# --- command line


def command_line() -> str:
    """Return all commands with their arguments and help texts."""
    return "".join(_command(name, inner) for name, inner in _commands(build_parser()))


def _commands(parser: argparse.ArgumentParser) -> list[tuple[str, argparse.ArgumentParser]]:
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                found += [(inner.prog, inner), *_commands(inner)]
    return found


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    has_commands = any(isinstance(action, argparse._SubParsersAction) for action in parser._actions)
    parts = [f"{'###' if name.count(' ') > 1 else '##'} {name}\n\n"]
    if parser.description:
        parts.append(f"{sentence(parser.description)}\n\n")
    rows = []
    for group in parser._action_groups:
        if group.title in SHARED:
            title = group.title or ""
            parts.append(f"Takes the [{title} options](options.md#{title}) as flags.\n\n")
        elif not has_commands:
            rows += [_argument(parser, action) for action in group._group_actions if action.dest != "help"]
    if rows:
        parts.append(table(("argument", "meaning"), rows))
    if parser.epilog and "examples:" in parser.epilog:
        parts.append(f"```sh\n{inspect.cleandoc(parser.epilog.split('examples:')[1])}\n```\n\n")
    return "".join(parts)


def _argument(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str]:
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    shown = "" if action.nargs == 0 else str(action.metavar or choices or action.dest.upper())
    flags = ", ".join(action.option_strings)
    help = parser._get_formatter()._expand_help(action) if action.help else ""
    help = help.replace(str(data_dir()), "the data folder of the user")
    return code(f"{flags} {shown}".strip() if flags else shown), sentence(help) if help else ""


# --- the socket, the API, metrics


def type_name(kind: Any) -> str:
    """Return the name of a msgspec type by JSON's types, with bounds."""
    info = kind if isinstance(kind, msgspec.inspect.Type) else msgspec.inspect.type_info(kind)
    match info:
        case msgspec.inspect.Metadata():
            return type_name(info.type)
        case msgspec.inspect.UnionType():
            return " or ".join(dict.fromkeys(type_name(one) for one in info.types))
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            return f"list of {type_name(info.item_type)}{_bounds(info.min_length, info.max_length)}"
        case msgspec.inspect.DictType():
            return "map"
        case msgspec.inspect.LiteralType():
            return ", ".join(map(code, info.values))
        case msgspec.inspect.StructType():
            names = [info.tag_field] if info.tag_field else []
            return f"map of {', '.join(map(code, [*names, *(field.encode_name for field in info.fields)]))}"
        case msgspec.inspect.StrType():
            return "text" + _bounds(info.min_length, info.max_length)
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            name = "integer" if isinstance(info, msgspec.inspect.IntType) else "number"
            return name + _bounds(info.ge, info.le)
        case msgspec.inspect.NoneType():
            return "null"
        case msgspec.inspect.AnyType():
            return "any"
    return {"BoolType": "boolean", "BytesType": "bytes", "DateType": "date"}[type(info).__name__]


def _bounds(low: float | None, high: float | None) -> str:
    low = None if low is not None and low <= -LARGE else low
    high = None if high is not None and high >= LARGE else high
    if high is None:
        return "" if low is None else f" (at least {low:g})"
    return f" (at most {high:,})" if low is None else f" ({low:,} to {high:,})"


def fields_of(kind: type[Struct]) -> list[tuple[str, ...]]:
    """Return (name, type, default) of each field."""
    (found,) = msgspec.inspect.multi_type_info([kind])
    assert isinstance(found, msgspec.inspect.StructType)
    rows: list[tuple[str, ...]] = []
    for field in found.fields:
        default = "required" if field.required else "empty"
        if field.default is not NODEFAULT:
            default = json.dumps(field.default)
        rows.append((code(field.encode_name), type_name(field.type), default))
    return rows


def socket_events() -> str:
    parts = []
    for name, event in ALL_EVENTS.items():
        assert issubclass(event.message, Message)
        rows = fields_of(event.message)
        right = inspect.cleandoc(event.right.__doc__ or "").partition("\n")[0]
        parts += [f"## {name}\n\n", f"Allowed for {right.removeprefix('Allow ').partition('. ')[0].rstrip('.')}.\n\n"]
        parts.append(table(("field", "type", "default"), rows) if rows else "No fields.\n\n")
    return "".join(parts)


def _path(kind: type[bodies.Body]) -> str:
    found: str = re.findall(r"`POST (\S+)`", kind.__doc__ or "")[0]
    return found


def openai_api() -> str:
    """Return the endpoints of the API with the fields of their bodies."""
    shown = [
        route for route in endpoints.ROUTES if "<path:rest>" not in route.rule and not route.rule.endswith("models/")
    ]
    parts = [
        "## Endpoints\n\n",
        table(("method", "path"), [(route.method, code(route.rule)) for route in shown]),
    ]
    kinds: list[type[bodies.Body]] = [
        bodies.CompletionBody, bodies.ChatBody, MessagesBody, CountTokensBody, ResponsesBody, bodies.TokenizeBody,
        bodies.DetokenizeBody,
    ]  # fmt: skip
    for kind in kinds:
        parts += [f"## {_path(kind)}\n\n", table(("field", "type", "default"), fields_of(kind))]
    parts.append("## Fields without effect\n\n")
    for kind, fields in (
        (bodies.ChatBody, "Of OpenAI's completions"),
        (MessagesBody, f"Of `{_path(MessagesBody)}`"),
        (ResponsesBody, f"Of `{_path(ResponsesBody)}`"),
    ):
        neutral = [
            (code(name), ", ".join(code(json.dumps(value)) for value in values) or code("null"))
            for name, values in kind.neutral.items()
            if name not in kind.__struct_fields__
        ]
        parts += [
            f"{fields}, accepted and ignored: " + ", ".join(map(code, sorted(kind.harmless))) + ".\n\n",
            "Not implemented, and accepted only as null or with a value that changes nothing:\n\n",
            table(("field", "accepted values"), neutral),
        ]
    parts.append("Any other field is refused with status 400, and the error names it.\n")
    return "".join(parts)


def metrics() -> str:
    parts = []
    config = names.Metric(names.CACHE_CONFIG, "gauge", names.CACHE_CONFIG_HELP)
    for kind in ("gauge", "counter", "histogram"):
        found = [metric for metric in (*names.METRICS, config) if metric.kind == kind]
        rows = [(code(m.name), ", ".join(map(code, m.labels)), sentence(m.help)) for m in found]
        parts += [f"## {kind.capitalize()}s\n\n", table(("name", "labels", "meaning"), rows)]
    parts += [
        "## The server's own\n\n",
        "`http_requests` (counter) and `http_request_duration_seconds` (histogram) count requests by `handler`,\n"
        f"`method` and `status`. `{REFUSED}` counts refused requests by exact status. `{client_queues.WAITING}` is\n"
        "the number of API requests that wait for their client's turn. `process_resident_memory_bytes` and the other\n"
        "`process_` metrics come from the Prometheus client library.\n",
    ]
    return "".join(parts)


# --- Python


def cache_policies() -> str:
    return "\n\n".join(map(_policy, policies().values()))


def _policy(policy: Policy) -> str:
    unit = f"{policy.unit} tokens" if policy.unit > 1 else "1 token"
    minimum = f"{policy.minimum:,} tokens" if policy.minimum else ""
    rules = [
        f"A hit is a multiple of {unit}.",
        f"The shortest cached prefix: {', '.join([minimum, *_minimums(policy)])}." if minimum else "",
        f"Kept {_lifetime(policy)}.",
        *(f"{rule[:1].upper()}{rule[1:]}." for rule in _further(policy)),
        *(f"Source: {one.says}. Checked on {one.checked} against {one.against}." for one in policy.sources),
    ]
    return f"## {policy.name}\n\n" + "\n".join(f"- {rule}" for rule in rules if rule)


def _minimums(policy: Policy) -> list[str]:
    return [f"{count:,} for `{word}`" for word, count in policy.minimums.items()]


def _lifetime(policy: Policy) -> str:
    if policy.breakpoints:
        return "5 minutes after each use, or an hour (`ttl`)"
    if not policy.seconds:
        return "until evicted"
    return f"{policy.seconds / 60:.0f} minutes after each use, possibly only {policy.maybe_seconds / 60:.0f}"


def _further(policy: Policy) -> list[str]:
    found = [f"requests of one {policy.scope} share the cache"]
    if policy.not_for:
        found.append(f"not simulated: models like {', '.join(f'`{word}`' for word in policy.not_for)}")
    if policy.breakpoints:
        found.append(
            f"only up to a `cache_control`, at most {policy.most_breakpoints}; lookups go back {policy.lookback} blocks"
        )
    if policy.slots:
        found.append("only the previous prompt of a slot is cached")
    if policy.last_token:
        found.append("the last token is always computed")
    if policy.answers:
        found.append(
            "answers are cached too, except the last generated token; none hits if its reasoning is not sent back"
        )
    return found


def python() -> str:
    """Return the public names of `kvtheater`."""
    return "".join(_public(name, getattr(kvtheater, name)) for name in kvtheater.__all__)


def _public(name: str, found: Any) -> str:
    if name == "__version__":
        return f"## {name}\n\nVersion of the program, a string.\n\n"
    if not inspect.isclass(found):
        return f"## {name}\n\n```text\n{_signature(name, found)}\n```\n\n{_prose(found)}"
    parts = [f"## {name}\n\n"]
    if issubclass(found, BaseException):
        base = next(one for one in found.__mro__[1:] if one.__module__ == "builtins")
        parts.append(f"Exception, a subclass of `{base.__name__}`. ")
    elif issubclass(found, Struct):
        parts.append(_prose(found))
        in_table = found in SHARED.values()
        listed = ", ".join(code(field) for field in found.__struct_fields__)
        return "".join([*parts, "Fields: see [options](options.md).\n\n" if in_table else f"Fields: {listed}.\n\n"])
    else:
        parts.append(f"```text\n{_signature(name, found)}\n```\n\n")
    parts.append(_prose(found))
    for member, value in inspect.getmembers(found):
        if member.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property)):
            continue
        if isinstance(value, property):
            parts.append(f"- `{member}` (property). {_first(value)}".rstrip() + "\n")
        else:
            parts.append(f"- `{_signature(member, value)}`. {_first(value)}".rstrip() + "\n")
    return "".join(parts).rstrip() + "\n\n"


def _signature(name: str, found: Callable[..., Any]) -> str:
    parts: list[str] = []
    for parameter in inspect.signature(found).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        kind = getattr(parameter.annotation, "__forward_arg__", parameter.annotation)
        kind = "" if kind is parameter.empty else f": {kind}"
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        parts.append(stars + parameter.name + kind + re.sub(r"<.*>", "…", default))
    result = inspect.signature(found).return_annotation
    arrow = "" if inspect.isclass(found) or result is inspect.Signature.empty else f" -> {result}"
    return f"{name}({', '.join(parts)}){arrow}"


def _first(found: Any) -> str:
    text = inspect.cleandoc(found.__doc__ or "").partition("\n\n")[0]
    return sentence(" ".join(text.split())) if text else ""


def _prose(found: Any) -> str:
    """Convert a docstring to Markdown, with its sections as lists."""
    text = re.sub(r"<(?!!)", "&lt;", inspect.cleandoc(found.__doc__ or ""))
    text = re.sub(r"^(Args|Raises|Returns|Yields):\n", r"\1:\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"^ {8}(?=\S)", "  ", text, flags=re.MULTILINE)
    return re.sub(r"^ {4}(?=\S)", "- ", text, flags=re.MULTILINE) + "\n\n"


PAGES: dict[str, Callable[[], str]] = {
    "options.md": options,
    "command-line.md": command_line,
    "socket-events.md": socket_events,
    "openai-api.md": openai_api,
    "metrics.md": metrics,
    "python.md": python,
    "cache-policies.md": cache_policies,
}


def written(name: str) -> str:
    """Return the text of a page of `PAGES`."""
    title, _, rest = (INTRO[name] + PAGES[name]()).partition("\n\n")
    return f"{title}\n\n{MARK}{rest.rstrip()}\n"


if __name__ == "__main__":
    for page in PAGES:
        (FOLDER / page).write_text(written(page), encoding="utf-8")
