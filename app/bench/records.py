"""Benchmark records of a server: shipped records, and those of its own runs."""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path
from typing import Literal, TypedDict

import msgspec
from msgspec import Struct

from app.ground.errors import AppError, refuse
from app.recordings.shelf import file_stamp
from engine.bench.errors import BenchError
from engine.bench.record import FORMAT, RESULTS, Environment, Finding, MetricInfo, read_record
from engine.bench.scenario import Scenario, find_scenario, scenario_ids
from engine.bench.text import Text

TRACES = "traces"  # folder of a record's traces, beside the record
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
logger = logging.getLogger(__name__)

Origin = Literal["shipped", "here"]


class Listed(Struct, frozen=True, kw_only=True):
    """List entry of a record, without its figures."""

    id: str
    origin: Origin
    scenario: str
    title: Text
    environment: Environment
    rounds: int
    complete: bool
    findings: list[Finding]
    metrics: dict[str, MetricInfo]  # metrics of the findings
    traces: list[str]  # available traces of its points


class ScenarioCard(Struct, frozen=True, kw_only=True):
    """List entry of a scenario."""

    id: str
    title: Text
    text: Text
    num_points: int
    num_variants: int
    rounds: int
    refused: Text | None  # why it cannot run on this machine


class BenchRecords:
    """Records by id. Thread-safe. Entries are cached until their files change."""

    def __init__(self, own: Path, shipped: Path = RESULTS) -> None:
        """`own`: folder of this server's records, with a folder for each. It need not exist yet."""
        self._shipped, self._own = shipped, own
        self._entries: dict[str, tuple[str, Listed | None]] = {}  # by id: stamp of the file, and the entry
        self._cards: list[ScenarioCard] | None = None
        self._lock = threading.Lock()

    def scenarios(self) -> list[ScenarioCard]:
        """Return the shipped scenarios."""
        with self._lock:
            if self._cards is None:
                self._cards = [_card(find_scenario(name)) for name in scenario_ids()]
            return self._cards

    def all(self) -> list[Listed]:
        """Return all valid records: the shipped ones, then this server's, latest first."""
        found = [listed for name in self._files() if (listed := self._listed(name)) is not None]
        shipped = [record for record in found if record.origin == "shipped"]
        own = sorted((r for r in found if r.origin == "here"), key=lambda r: r.environment.created, reverse=True)
        return shipped + own

    def content(self, record_id: str) -> bytes:
        """Return the record's file.

        Raises:
            AppError: `not_found`.
        """
        try:
            return self._path(record_id).read_bytes()
        except OSError as error:
            raise _unknown(record_id) from error

    def trace(self, record_id: str, name: str) -> Path:
        """Return a trace of one of the record's points.

        Raises:
            AppError: `not_found`: no such record or trace, or the file is missing.
        """
        listed = self._listed(record_id)
        if listed is None or name not in listed.traces:  # a path from the request must not be opened
            raise refuse("not_found", "bench.no_trace", record_id=record_id[:60], name=name[:80])
        return self._path(record_id).parent / TRACES / name

    def _files(self) -> dict[str, Path]:
        """Return all files that may be records, by record id."""
        files = {f"shipped-{path.stem}": path for path in sorted(self._shipped.glob("*.json"))}
        files |= {f"here-{path.parent.name}": path for path in sorted(self._own.glob("*/*.json"))}
        return {record_id: path for record_id, path in files.items() if _ID.fullmatch(record_id)}

    def _path(self, record_id: str) -> Path:
        path = self._files().get(record_id)
        if path is None or self._listed(record_id) is None:
            raise _unknown(record_id)
        return path

    def _listed(self, record_id: str) -> Listed | None:
        """Return the list entry of a record; None: no such record, or a damaged one."""
        path = self._files().get(record_id)
        try:
            stamp = file_stamp(path) if path else ""
        except OSError:
            return None
        if path is None:
            return None
        with self._lock:
            cached = self._entries.get(record_id)
            if cached is None or cached[0] != stamp:
                cached = self._entries[record_id] = stamp, _read(record_id, path)
        listed = cached[1]
        if listed is None:
            return None
        available = [name for name in listed.traces if (path.parent / TRACES / name).is_file()]
        return msgspec.structs.replace(listed, traces=available)


def _read(record_id: str, path: Path) -> Listed | None:
    try:
        with path.open("rb") as file:
            if f'"{FORMAT}"'.encode() not in file.read(200):
                return None  # another file of the folder
        record = read_record(path)
    except (OSError, BenchError) as error:
        logger.warning("%s: %s", path.name, error)
        return None
    names = {point.trace for point in record.points if point.trace and Path(point.trace).name == point.trace}
    return Listed(
        id=record_id,
        origin="here" if record_id.startswith("here-") else "shipped",
        scenario=record.scenario.id,
        title=record.scenario.title,
        environment=record.environment,
        rounds=record.rounds,
        complete=record.complete,
        findings=record.findings,
        metrics={f.metric: record.metrics[f.metric] for f in record.findings if f.metric in record.metrics},
        traces=sorted(names),
    )


def _card(scenario: Scenario) -> ScenarioCard:
    from engine.bench.environment import refusal  # lazy: imports torch

    return ScenarioCard(
        id=scenario.id,
        title=scenario.title,
        text=scenario.text,
        num_points=len(scenario.axis.points()),
        num_variants=len(scenario.variants),
        rounds=scenario.rounds,
        refused=refusal(scenario),
    )


def _unknown(record_id: str) -> AppError:
    return refuse("not_found", "bench.record", record_id=record_id[:60])


class BenchAnswer(TypedDict):
    """Response of /api/bench."""

    scenarios: list[ScenarioCard]
    records: list[Listed]
    can_run: bool
    keeps_records: bool
    code: str  # `step_code_hash`
