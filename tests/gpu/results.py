"""Results of a run, a line of JSON each, appended as they occur, so that a stopped part loses none."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FILE = "results.jsonl"
Status = Literal["right", "wrong", "measured", "skipped", "stopped"]


class Skipped(Exception):
    """The device or its software lacks a requirement, which the message names."""


@dataclass(frozen=True)
class Run:
    """Part of a run: its device, its time limit, and the folder of its results."""

    part: str
    device: str
    tiny: bool
    seconds: float  # until the part is stopped
    out: Path
    options: Mapping[str, str]
    began: float

    @property
    def seconds_left(self) -> float:
        """Return the seconds until the part is stopped."""
        return self.began + self.seconds - time.monotonic()

    def add(self, name: str, status: Status, text: str = "", **figures: Any) -> None:
        """Append a result."""
        line = {"part": self.part, "name": name, "status": status, "text": text, **figures}
        with (self.out / FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        print(f"{self.part:8} {name:58} {status:9} {text}"[:200], flush=True)

    @contextmanager
    def trying(self, name: str) -> Iterator[None]:
        """Run a check as context: report a missing requirement as skipped and an exception as a wrong result."""
        try:
            yield
        except Skipped as error:
            self.add(name, "skipped", str(error))
        except Exception as error:
            self.add(name, "wrong", f"{type(error).__name__}: {' '.join(str(error).split())}"[:400])

    def mismatch(self, name: str, tensors: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Write the inputs and outputs of a wrong result as safetensors and JSON, for analysis without the device."""
        from safetensors.torch import save_file

        folder = self.out / "mismatches"
        folder.mkdir(exist_ok=True)
        file = folder / "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
        kept = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in tensors.items()}
        save_file(kept, file.with_name(file.name + ".safetensors"))
        file.with_name(file.name + ".json").write_text(json.dumps({"name": name, **facts}, indent=1, default=str))


def read(out: Path) -> list[dict[str, Any]]:
    """Return all results in a folder, ignoring a truncated last line."""
    file = out / FILE
    found = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def table(results: list[dict[str, Any]]) -> str:
    """Format all results, a line each, and their counts by status."""
    lines = [f"{one['part']:8} {one['name']:58} {one['status']:9} {one['text']}"[:160].rstrip() for one in results]
    statuses = [one["status"] for one in results]
    counts = ", ".join(f"{statuses.count(name)} {name}" for name in dict.fromkeys(statuses))
    return "\n".join([*lines, counts or "no result"])
