"""No command prints the terminal escape codes in a trace's texts."""

import ast
import json
import logging
from pathlib import Path

import pytest

from app.cli import main
from app.cli.terminal import EscapingFormatter, say
from tests.fuzz.hostile import ESCAPE, TRACES

COMMANDS = [
    ["show"], ["show", "--record", "0"], ["show", "--json"], ["show", "--record", "0", "--json"],
    ["compare", "{b}"], ["compare", "{b}", "--json"],
    ["explain"], ["explain", "--json"], ["explain", "--request", ESCAPE], ["explain", "--request", ESCAPE, "--json"],
    ["explain", "--request", "nobody"], ["check"],
    *(["export", "--to", to, "-o", "{out}"] for to in ("perfetto", "csv", "parquet", "kv-events")),
]  # fmt: skip


@pytest.fixture
def traces(tmp_path: Path) -> tuple[Path, Path]:
    """Write the hostile trace, and one that differs from it in everything."""
    hostile, other = tmp_path / "a.kvtrace", tmp_path / "b.kvtrace"
    hostile.write_bytes(TRACES["control characters"].make())
    other.write_bytes(TRACES["a keyframe of unknown sequences"].make())
    return hostile, other


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_control_characters_are_printed(
    command: list[str], traces: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name, *rest = [part.format(b=traces[1], out=tmp_path / "out") if "{" in part else part for part in command]
    main(["trace", name, str(traces[0]), *rest])
    printed = capsys.readouterr()
    text = printed.out + printed.err
    assert text and "Traceback" not in text
    assert [c for c in text.replace("\n", "") if not c.isprintable()] == []
    if "--json" in command:
        lines = [json.loads(line) for line in printed.out.splitlines()]
        if name != "compare":
            assert ESCAPE in _texts(lines), "and a program that reads the JSON gets the text as it is"


@pytest.mark.parametrize("name", [name for name, trace in TRACES.items() if trace.make.__name__ != "<lambda>"])
@pytest.mark.parametrize("command", [["show"], ["show", "--record", "0"], ["explain"], ["compare"]], ids=" ".join)
def test_no_file_causes_a_stack_trace(
    name: str, command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.kvtrace"
    path.write_bytes(TRACES[name].make())
    files = [str(path)] * (2 if command[0] == "compare" else 1)
    status = main(["trace", command[0], *files, *command[1:]])
    printed = capsys.readouterr()
    assert status in (0, 1, 2) and (printed.out or printed.err)


def _texts(value: object) -> set[str]:
    if isinstance(value, str):
        return {value}
    if isinstance(value, dict):
        return set().union(*map(_texts, [*value, *value.values()]))
    return set().union(*map(_texts, value)) if isinstance(value, list) else set()


def test_a_file_whose_name_is_a_command_is_logged_and_printed_with_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"a{ESCAPE}\x1b]0;x\x07.kvtrace"
    record = logging.LogRecord("app", logging.WARNING, "f.py", 1, "%s: damaged", (name,), None)
    say(name, flush=True)
    main(["trace", "show", str(tmp_path / name)])
    printed = capsys.readouterr()
    for text in (EscapingFormatter("%(message)s").format(record), printed.out, printed.err):
        assert "kvtrace" in text and all(c.isprintable() for c in text.replace("\n", ""))


def test_the_command_line_prints_only_through_say() -> None:
    """`print` would pass a file's control characters to the terminal; without text it ends a line of progress."""
    folder = Path(main.__code__.co_filename).parent
    calls = [
        f"{path.name}:{call.lineno}"
        for path in folder.glob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print" and call.args
        if not any(keyword.arg == "end" for keyword in call.keywords)
    ]
    assert calls == []
