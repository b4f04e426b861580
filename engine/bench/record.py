"""Record of a benchmark as JSON; docs/reference/benchmark-records.md explains every field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from engine.bench.errors import BenchError
from engine.bench.metrics import Better, MetricSource
from engine.bench.scenario import Scenario, Value
from engine.bench.statistics import Estimate
from engine.bench.text import Text
from engine.trace.records import Machine

FORMAT = "kvtheater-bench"
VERSION = 1
RESULTS = Path(__file__).parent / "results"
MAX_BYTES = 64 << 20


class Figure(Struct, frozen=True, kw_only=True):
    """Metric of a variant at a point of the axis."""

    median: float
    low: float  # 95 % interval of the median
    high: float
    samples: list[float]  # one per round in order; only one if all rounds are equal
    ratios: dict[str, Estimate] = {}  # baseline -> figure / the baseline's figure in the same round


class Point(Struct, frozen=True, kw_only=True):
    """Results of a variant at a point of the axis."""

    at: Value
    variant: str
    figures: dict[str, Figure] = {}
    tokens_identical: bool | None = None  # whether outputs equal the reference's in every run; None: not compared
    failed: str = ""  # why there are no figures
    trace: str | None = None  # log of the warm-up run, a file beside the record


class MetricInfo(Struct, frozen=True, kw_only=True):
    """Definition of a metric."""

    unit: str
    better: Better | None
    source: MetricSource
    title: Text


class Finding(Struct, frozen=True, kw_only=True):
    """Result of a headline of the scenario, and whether its bar is met (None: no bar)."""

    title: Text
    value: float
    low: float | None
    high: float | None
    unit: str  # "×" for a ratio
    bar: str = ""  # "≥ 1.5", "≤ 0.04", "holds 1", or "" without a bar
    met: bool | None = None
    metric: str = ""  # "": an older file without this field, whose scenario has no such headline


class Environment(Struct, frozen=True, kw_only=True):
    """Machine, versions and conditions of a run."""

    created: str  # ISO 8601, UTC
    command: str
    commit: str | None  # of this program; None outside of a repository
    modified: bool | None  # whether files of engine/ or app/ differed from the commit
    code: str | None = None  # `step_code_hash`; None: an older file without this field
    system: str
    machine: Machine
    num_cpus: int
    memory_bytes: int | None
    seed: int
    quiet: bool  # other programs used less than a tenth of a CPU before the run
    busy_cpus: float | None  # average CPUs used by other programs during the run


class Record(Struct, frozen=True, kw_only=True):
    """Run of a scenario."""

    format: str = FORMAT
    version: int = VERSION
    scenario: Scenario  # as it ran
    environment: Environment
    rounds: int
    complete: bool  # False: it was stopped early
    peers: dict[str, str]  # variant -> package and version
    axis_values: list[Value]
    metrics: dict[str, MetricInfo]
    points: list[Point]
    findings: list[Finding]

    def point(self, at: Value, variant: str) -> Point | None:
        """Return a point, or None."""
        return next((p for p in self.points if p.at == at and p.variant == variant), None)


def _with_metrics(record: Record) -> Record:
    """Fill missing metrics of findings from the headline of the same title."""
    metrics = {headline.title: headline.metric for headline in record.scenario.headlines}
    findings = [replace(f, metric=f.metric or metrics.get(f.title, "")) for f in record.findings]
    return replace(record, findings=findings)


def write_record(record: Record, path: Path) -> None:
    """Write the file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(to_json(record))
    temporary.replace(path)


def to_json(record: Record) -> bytes:
    """Return indented JSON with each list of numbers on one line, so that diffs of records are readable."""
    text = msgspec.json.format(msgspec.json.encode(record), indent=1).decode()
    # safe for strings: JSON strings contain no line breaks
    text = re.sub(r"\[\n([-+\d.eE,\s]+)\]", lambda match: f"[{' '.join(match[1].split())}]", text)
    return text.encode() + b"\n"


def read_record(path: Path) -> Record:
    """Read a record.

    Raises:
        BenchError: no such file, or not a valid record.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BenchError(f"{path} is larger than any record ({MAX_BYTES >> 20} MiB)")
        data = path.read_bytes()
    except OSError as error:
        raise BenchError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        head = msgspec.json.decode(data, type=dict[str, Any])
        if head.get("format") != FORMAT:
            raise BenchError(f"{path} is not a benchmark record (its format is {head.get('format')!r})")
        if head.get("version") != VERSION:
            raise BenchError(f"{path} has version {head.get('version')!r}; this program reads {VERSION}")
        return _with_metrics(msgspec.json.decode(data, type=Record))
    except msgspec.DecodeError as error:
        raise BenchError(f"{path} is damaged: {error}") from error


def read_records(path: Path) -> list[Record]:
    """Return the record in a file, or all records of a folder, by scenario; other files of the folder are ignored.

    Raises:
        BenchError: no record, or a damaged one.
    """
    if not path.is_dir():
        return [read_record(path)]
    found = [read_record(file) for file in sorted(path.glob("*.json")) if f'"{FORMAT}"'.encode() in _head(file)]
    if not found:
        raise BenchError(f"there is no benchmark record in {path}")
    return found


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(200)
