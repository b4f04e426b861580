"""Fuzzing of both readers, in separate processes, with one mutated trace after another."""

import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.trace.codec import MAGIC
from tests.fuzz.hostile import make_all
from tests.fuzz.mutate import frames_of, joined, mutate
from tests.fuzz.readers import ROOT, LineReader, NodeReader, Reading, disagreement

CHECK_SECONDS = 2.0  # maximum CPU seconds of a check of a file up to 1 MB
HANG = 60.0  # wall-clock seconds after which a reader is killed
FIRST_FRAMES = 40  # frames of a seed file to mutate; short files are read faster


@dataclass
class Outcome:
    """Result of a run of the fuzzer."""

    files: int = 0
    accepted: int = 0  # files read to the end by both
    slowest: float = 0.0  # CPU seconds of the slowest check
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = f"{self.files} files, {self.accepted} of them read to the end, slowest check {self.slowest:.2f} s"
        return "\n".join([f"{head}; {len(self.findings)} findings", *self.findings])


def seeds() -> list[bytes]:
    """Return the hostile traces, and valid ones with every operation, arrays, keyframes and groups of layers."""
    files = [*(ROOT / "tests/golden").glob("*.kvtrace"), *(ROOT / "static/recordings").glob("*.kvtrace")]
    files += sorted((ROOT / "tests/js/museum").glob("*.kvtrace"))[:4]
    real = [joined(frames_of(path.read_bytes())[:FIRST_FRAMES]) for path in sorted(files)]
    small = [data for _, data, _ in make_all() if data.startswith(MAGIC) and len(data) < 4000]
    return real * 4 + small


def fuzz(
    seed: int,
    folder: Path,
    *,
    seconds: float = float("inf"),
    files: int = sys.maxsize,
    report: Callable[[str], object] = str,
) -> Outcome:
    """Fuzz for `seconds` or until the number of files is reached, and save files with findings in `folder`."""
    rng, outcome, started, reported_at = random.Random(seed), Outcome(), time.monotonic(), time.monotonic()
    originals = seeds()
    python = LineReader([sys.executable, "-m", "tests.fuzz.reader"], HANG)
    with tempfile.TemporaryDirectory() as scratch, python, NodeReader(seconds=HANG) as node:
        path = Path(scratch) / "changed.kvtrace"
        while outcome.files < files and time.monotonic() - started < seconds:
            data = mutate(rng.choice(originals), rng)
            path.write_bytes(data)
            finding = _finding(python.read(path), node.read(path), outcome)
            outcome.files += 1
            if finding:
                folder.mkdir(parents=True, exist_ok=True)
                target = folder / f"{seed}-{outcome.files}.kvtrace"
                target.write_bytes(data)
                outcome.findings.append(f"{target}: {finding}")
                report(outcome.findings[-1])
            if time.monotonic() - reported_at > 30:
                reported_at = time.monotonic()
                report(f"{outcome.files} files, {len(outcome.findings)} findings")
    return outcome


def _finding(ours: Reading, theirs: Reading | None, outcome: Outcome) -> str | None:
    if "crashed" in ours:
        return f"Python's reader: {ours['crashed']}"
    outcome.slowest = max(outcome.slowest, ours["seconds"])
    if ours["seconds"] > CHECK_SECONDS:
        return f"checked in {ours['seconds']:.1f} s"
    if theirs is None:
        return None
    outcome.accepted += ours["refused"] is None and theirs.get("refused") is None
    return disagreement(ours, theirs)
