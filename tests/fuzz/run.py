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

CHECK_SECONDS = 2.0  # of CPU, for a file of a megabyte at most
HANG = 60.0  # wall-clock seconds after which a reader is given up
FIRST_FRAMES = 40  # of a seed: short files make more of them


@dataclass
class Done:
    """Result of a run of the fuzzer."""

    files: int = 0
    taken: int = 0  # read to the end by both
    slowest: float = 0.0  # seconds of CPU for a check
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = f"{self.files} files, {self.taken} of them read to the end, slowest check {self.slowest:.2f} s"
        return "\n".join([f"{head}; {len(self.findings)} findings", *self.findings])


def seeds() -> list[bytes]:
    """Return sound traces with every operation, arrays, keyframes and groups of layers, and the hostile ones."""
    files = [*(ROOT / "tests/golden").glob("*.kvtrace"), *(ROOT / "static/recordings").glob("*.kvtrace")]
    files += sorted((ROOT / "tests/js/museum").glob("*.kvtrace"))[:4]
    real = [joined(frames_of(path.read_bytes())[:FIRST_FRAMES]) for path in sorted(files)]
    small = [data for _, data, _ in make_all() if data.startswith(MAGIC) and len(data) < 4000]
    return real * 4 + small


def fuzz(
    seed: int,
    keep: Path,
    *,
    seconds: float = float("inf"),
    files: int = sys.maxsize,
    tell: Callable[[str], object] = str,
) -> Done:
    """Fuzz until the time or the number of files is used up. Files with findings are saved in the folder `keep`."""
    chance, done, started, reported_at = random.Random(seed), Done(), time.monotonic(), time.monotonic()
    originals = seeds()
    python = LineReader([sys.executable, "-m", "tests.fuzz.reader"], HANG)
    with tempfile.TemporaryDirectory() as folder, python, NodeReader(seconds=HANG) as node:
        path = Path(folder) / "changed.kvtrace"
        while done.files < files and time.monotonic() - started < seconds:
            data = mutate(chance.choice(originals), chance)
            path.write_bytes(data)
            wrong = _wrong(python.read(path), node.read(path), done)
            done.files += 1
            if wrong:
                keep.mkdir(parents=True, exist_ok=True)
                kept = keep / f"{seed}-{done.files}.kvtrace"
                kept.write_bytes(data)
                done.findings.append(f"{kept}: {wrong}")
                tell(done.findings[-1])
            if time.monotonic() - reported_at > 30:
                reported_at = time.monotonic()
                tell(f"{done.files} files, {len(done.findings)} findings")
    return done


def _wrong(ours: Reading, theirs: Reading | None, done: Done) -> str | None:
    if "crashed" in ours:
        return f"Python's reader: {ours['crashed']}"
    done.slowest = max(done.slowest, ours["seconds"])
    if ours["seconds"] > CHECK_SECONDS:
        return f"checked in {ours['seconds']:.1f} s"
    if theirs is None:
        return None
    done.taken += ours["refused"] is None and theirs.get("refused") is None
    return disagreement(ours, theirs)
