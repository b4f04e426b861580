"""Prompts, outputs and texts of files are text to a spreadsheet that opens a CSV, whatever their first character."""

import csv
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from msgspec.structs import replace

from app.cli import main
from engine.trace.export.tables import EVENTS, STEPS
from engine.trace.log import TraceReader, TraceWriter
from tests.server.conftest import Server

STARTS = ["=", "+", "-", "@", "\t", "\r", "\n", "＝"]
COMMAND = "{}cmd|' /C calc'!A0"


@pytest.fixture
def hostile(make_server: Callable[..., Server], tmp_path: Path) -> tuple[Server, str]:
    """Serve a trace whose outputs and findings begin as formulas do, one record for each; its clock runs backwards, so
    that there are negative numbers too.
    """
    server = make_server(data_dir=tmp_path / "data")
    client = server.client()
    theater = client.do("create")["theater"]
    client.do("submit", theater=theater, prompts=[{"text": "=1+1"}], sampling={"max_tokens": len(STARTS)})
    client.do("step", theater=theater, count=len(STARTS))
    (tmp_path / "own").write_bytes(requests.get(f"{server.url}/api/theaters/{theater}/trace").content)
    with TraceReader(tmp_path / "own") as reader, TraceWriter(reader.header, tmp_path / "hostile.kvtrace") as writer:
        writer.append(reader.record(0))
        for index, start in enumerate(STARTS, 1):
            record = reader.record(index)
            text = COMMAND.format(start)
            writer.append(
                replace(
                    record,
                    outputs=[replace(output, text=text) for output in record.outputs],
                    timing=replace(record.timing, at=-0.5),
                    integrity=text,
                    has_capture=False,
                )
            )
    content = (tmp_path / "hostile.kvtrace").read_bytes()
    return server, str(requests.post(f"{server.url}/api/recordings", data=content).json()["id"])


def check(steps: str, events: str) -> None:
    """Check that both tables have only text."""
    rows = list(csv.DictReader(io.StringIO(steps, newline="")))[1:]
    assert [row["text"] for row in rows] == [f"'{COMMAND.format(start)}" for start in STARTS]
    assert [row["integrity"] for row in rows] == [f"'{COMMAND.format(start)}" for start in STARTS]
    assert [row["at"] for row in rows] == ["-0.5"] * len(STARTS)
    for table, columns in ((steps, STEPS), (events, EVENTS)):
        for row in csv.DictReader(io.StringIO(table, newline="")):
            for name, kind in columns:
                if kind is str:
                    assert not row[name].startswith(tuple(STARTS)), (name, row[name])
                elif kind is float and row[name]:
                    float(row[name])


def test_the_export_over_http(hostile: tuple[Server, str]) -> None:
    server, recording = hostile
    answer = requests.get(f"{server.url}/api/recordings/{recording}/export/csv")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as tables:
        check(tables.read("steps.csv").decode(), tables.read("events.csv").decode())


def test_the_export_of_the_command_line(hostile: tuple[Server, str], tmp_path: Path) -> None:
    trace, folder = tmp_path / "hostile.kvtrace", tmp_path / "tables"
    assert main(["trace", "export", str(trace), "--to", "csv", "-o", str(folder)]) == 0
    check(*[(folder / f"{name}.csv").read_bytes().decode() for name in ("steps", "events")])
