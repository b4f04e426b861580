"""Run all checks and measurements that require a GPU, within a few minutes.

    python -m tests.gpu [--minutes 8] [--device cuda|cpu] [--tiny] [--out FOLDER] [--parts right,fast,trained,shown]
                        [--wheels FOLDER] [--packed FILE]

    right     attention, stores, moves, capture and compiled code against float32 on the CPU and against transformers
    fast      decode steps of two models' shapes against the device's memory, transformers and options of the engine
    trained   the bundled model, by training/, on tokens that were packed before
    shown     a served page on a model of 0.6 B parameters: from step to painted

Each part is a child process with its own time limit. Results are appended to FOLDER/results.jsonl as they occur, and
benchmark records of `fast` are written to FOLDER/records. The exit status is 1 if a result is wrong.

A borrowed machine without a network needs the repository with two artifacts, prepared on another machine:

    python -m tests.gpu.carry artifacts/gpu/wheels
    python -m training.pack --corpus CORPUS --config training/bundled.toml --out artifacts/gpu/packed.safetensors

Then run one command on the borrowed machine, and copy OUT back:

    python -m tests.gpu --minutes 8 --wheels artifacts/gpu/wheels --packed artifacts/gpu/packed.safetensors --out "$OUT"

Afterwards `python -m training.verdict --model OUT/trained/model ...` tells whether the trained model is better.
`--device cpu --tiny` runs everything at a small size. This module imports only the standard library.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import suppress
from pathlib import Path

from tests.gpu.results import Run, read, table

ROOT = Path(__file__).parents[2]
SHARES = {"right": 0.26, "fast": 0.36, "trained": 0.32, "shown": 0.06}  # of the total time
ENDING = 5  # seconds that a child may use to end after its limit


def environment(wheels: Path | None, unpacked: Path, device: str) -> dict[str, str]:
    """Return a child's environment: carried wheels unpacked on its path, and Triton's interpreter without a GPU."""
    paths = [str(ROOT)]
    if wheels is not None:
        for wheel in sorted(wheels.glob("*.whl")):
            with zipfile.ZipFile(wheel) as file:
                file.extractall(unpacked)
        paths.append(str(unpacked))
    found = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]).rstrip(":")}
    found["HF_HUB_OFFLINE"] = "1"
    if device == "cpu":
        found |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    return found


def run_part(run: Run, environ: dict[str, str]) -> None:
    """Run a part in a child process; stop the process and its descendants at the time limit."""
    command = [sys.executable, "-m", "tests.gpu.part", run.part, run.device, str(int(run.tiny))]
    command += [f"{run.seconds:.0f}", str(run.out), *(f"{name}={value}" for name, value in run.options.items())]
    child = subprocess.Popen(command, cwd=ROOT, env=environ, start_new_session=True)
    try:
        status = child.wait(run.seconds)
    except subprocess.TimeoutExpired:
        run.add("limit", "stopped", f"after {run.seconds:.0f} s; what it had written stays")
    else:
        if status:
            run.add("ended", "wrong", f"the part ended with status {status}; its last lines are above")
    finally:
        for sign, seconds in ((signal.SIGTERM, ENDING), (signal.SIGKILL, ENDING)):
            with suppress(ProcessLookupError):
                os.killpg(child.pid, sign)
            with suppress(subprocess.TimeoutExpired):
                child.wait(seconds)
                break


def main() -> int:
    """Run the parts; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0, help="of all parts together (default: %(default)s)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="the same at a small size, to try the script itself")
    parser.add_argument("--out", type=Path, default=ROOT / "artifacts" / "gpu" / "out")
    parser.add_argument("--parts", default=",".join(SHARES), help="(default: %(default)s)")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels that this machine lacks (tests.gpu.carry)")
    parser.add_argument("--packed", type=Path, help="tokens to train on (training.pack)")
    args = parser.parse_args()
    parts = args.parts.split(",")
    if unknown := [part for part in parts if part not in SHARES]:
        parser.error(f"there is no part {unknown[0]!r}: choose from {', '.join(SHARES)}")
    args.out.mkdir(parents=True, exist_ok=True)
    before = len(read(args.out))
    end = time.monotonic() + 60 * args.minutes
    with tempfile.TemporaryDirectory(prefix="kvtheater-gpu-") as unpacked:
        environ = environment(args.wheels, Path(unpacked), args.device)
        options = {} if args.packed is None else {"packed": str(args.packed.resolve())}
        for index, part in enumerate(parts):
            began = time.monotonic()
            # unused time of earlier parts is available to later parts
            seconds = (end - began) * SHARES[part] / sum(SHARES[one] for one in parts[index:])
            run_part(Run(part, args.device, args.tiny, seconds, args.out.resolve(), options, began), environ)
    results = read(args.out)[before:]
    print("\n" + table(results))
    return int(any(one["status"] == "wrong" for one in results))


if __name__ == "__main__":
    sys.exit(main())
