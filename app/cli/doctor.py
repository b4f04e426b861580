"""`kvtheater doctor`: facts for a bug report, on one screen."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app import __version__
from app.cli.options import add_command
from app.cli.terminal import say, say_json
from app.ground.errors import one_sentence
from app.ground.paths import data_dir
from engine.setup import diagnosis
from engine.trace.messages.words import bytes_text


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "doctor",
        "show facts for a bug report: versions, machine, compilers, folders, ports",
        "  kvtheater doctor\n  kvtheater doctor --json\n",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the facts. The home folder is replaced by ~, and its name in other paths by USER."""
    if sys.stderr.isatty():
        say("inspecting this machine; importing torch and loading the bundled model takes seconds", to=sys.stderr)
    found = {name: _gathered(gather) for name, gather in PARTS.items()}
    if arguments.json:
        say_json(_without_home(found))
        return 0
    for name, part in found.items():
        text = part["failed"] if "failed" in part else SHOWN[name](part)
        for label, line in text.items() if isinstance(text, dict) else [(name, text)]:
            say(_without_home(f"{label:<15}{line}"))
    return 0


def _gathered(gather: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the facts, or the error on gathering them, since a bug report needs that too."""
    try:
        return gather()
    except Exception as error:  # a broken torch may raise anything
        return {"failed": f"{type(error).__name__}: {one_sentence(error)}"}


def _folders() -> dict[str, Any]:
    return {"recordings": diagnosis.folder(data_dir()), **diagnosis.folders()}


def _ports() -> dict[str, Any]:
    from app.server.listener import DEFAULT_PORT, PORTS_TO_TRY, free_ports

    return {"first": DEFAULT_PORT, "last": DEFAULT_PORT + PORTS_TO_TRY - 1, "free": free_ports()}


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "versions": lambda: diagnosis.versions(__version__),
    "processor": diagnosis.processor,
    "memory": diagnosis.memory,
    "torch": diagnosis.torch_facts,
    "compilers": diagnosis.compilers,
    "compiled pass": diagnosis.compiled_pass,
    "folders": _folders,
    "ports": _ports,
    "environment": diagnosis.variables,
}


def _versions(part: dict[str, Any]) -> dict[str, str]:
    rows = {name: f"{part[name]['version']}" for name in ("kvtheater", "system")}
    rest = (f"{name} {one['version']} ({one['supported']})" for name, one in part.items() if name not in rows)
    return rows | {"versions": ", ".join(rest)}


def _processor(part: dict[str, Any]) -> str:
    instructions = " ".join(part["instructions"])
    return f"{part['name']} ({part['architecture']}), {part['usable_cores']} of {part['cores']} cores; {instructions}"


def _memory(part: dict[str, Any]) -> str:
    limit = f", {_size(part['allowed_bytes'])} allowed" if part["allowed_bytes"] < part["machine_bytes"] else ""
    return f"{_size(part['available_bytes'])} available of {_size(part['machine_bytes'])}{limit}"


def _torch(part: dict[str, Any]) -> dict[str, str]:
    gpus = [f"{g['name']}, {_size(g['memory_bytes'])}, compute capability {g['capability']}" for g in part["gpus"]]
    built = f"built for {part['build']}, computes with {part['uses']} on {part['threads']} threads"
    return {"torch": built, "GPU": "; ".join(gpus) or "torch sees none"}


def _folder_rows(part: dict[str, Any]) -> dict[str, str]:
    def described(one: dict[str, Any]) -> str:
        size = "" if one["bytes"] is None else f"{_size(one['bytes'])}, "
        return f"{one['path']}: {size}{_size(one['free_bytes'])} free" + (
            "" if one["is_writable"] else ", not writable"
        )

    return {name: described(one) for name, one in part.items()}


def _ports_row(part: dict[str, Any]) -> str:
    taken = [port for port in range(part["first"], part["last"] + 1) if port not in part["free"]]
    return f"{part['first']} to {part['last']}: " + (f"in use: {', '.join(map(str, taken))}" if taken else "all free")


SHOWN: dict[str, Callable[[dict[str, Any]], str | dict[str, str]]] = {
    "versions": _versions,
    "processor": _processor,
    "memory": _memory,
    "torch": _torch,
    "compilers": lambda part: {f"{name} compiler": text or "none found" for name, text in part.items()},
    "compiled pass": lambda part: "available" if part["is_there"] else f"unavailable: {part['why']}",
    "folders": _folder_rows,
    "ports": _ports_row,
    "environment": lambda part: ", ".join(f"{name}={text}" for name, text in part.items()) or "nothing set",
}


def _size(num_bytes: int) -> str:
    return bytes_text(num_bytes, " ")


def _without_home(value: Any) -> Any:
    """Return texts with ~ for the home folder and USER for its name in other paths: /scratch/ann is /scratch/USER."""
    if isinstance(value, dict):
        return {name: _without_home(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_without_home(one) for one in value]
    if not isinstance(value, str):
        return value
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home
        return value
    if not home.name:
        return value
    text = re.sub(rf"{re.escape(str(home))}(?![\w.-])", "~", value)
    return re.sub(rf"(?<=/){re.escape(home.name)}(?![\w.-])", "USER", text)
