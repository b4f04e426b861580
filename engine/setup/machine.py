"""Machine of a run: device, processor, versions and measured peak rates, for trace headers and the page."""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import torch

from engine.accounting.roofline import copy_traffic, matmul_flops, rate
from engine.model import device as devices
from engine.system.host import processor_name
from engine.trace.records import Machine, Roofs

RUNS = 5  # number of timed runs of each kind
MATMUL_SECONDS = 0.005  # minimum time of a timed product, well above clock resolution and call overhead
MATMUL_SIZES = (256, 512, 1024, 2048, 4096, 8192)
COPY_BYTES = {"cpu": 64 << 20, "cuda": 256 << 20}  # larger than the caches, so that memory is measured

_roofs: dict[tuple[str, torch.dtype], Roofs] = {}
_measuring = threading.Lock()


def machine_facts(device: torch.device, dtype: torch.dtype | None = None) -> Machine:
    """Return facts about this machine that do not identify its user, with the peak rates for `dtype` if measured."""
    return Machine(
        device=devices.ALLOCATOR.name(device),
        processor=processor_name(),
        num_threads=torch.get_num_threads(),
        versions={"python": platform.python_version(), **_versions("torch", "transformers", "numpy")},
        roofs=_roofs.get((str(device), dtype)) if dtype else None,
    )


def measure_roofs(device: torch.device, dtype: torch.dtype) -> Roofs:
    """Return this machine's peak rates in `dtype`, measured once per process and device.

    FLOP/s are measured by a product of two square matrices that takes at least 5 ms, bytes/s by a copy of 64 MiB (256
    MiB on a GPU), counted as one read and one write. Each is the median of 5 runs after a warm-up. The measurement
    takes tenths of a second and should run on an idle machine.
    """
    with _measuring:
        key = (str(device), dtype)
        if key not in _roofs:
            _roofs[key] = _measure(device, dtype)
        return _roofs[key]


def _measure(device: torch.device, dtype: torch.dtype) -> Roofs:
    for size in MATMUL_SIZES:
        matrix = torch.ones(size, size, dtype=dtype, device=device)
        product = torch.empty_like(matrix)
        seconds = _timed(lambda a=matrix, out=product: torch.mm(a, a, out=out), device)  # type: ignore[misc]
        if min(seconds) >= MATMUL_SECONDS:
            break
    num_bytes = COPY_BYTES.get(device.type, COPY_BYTES["cpu"])
    source = torch.ones(num_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copies = _timed(lambda: target.copy_(source), device)
    return Roofs(
        dtype=str(dtype).removeprefix("torch."),
        num_threads=torch.get_num_threads(),
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        flops_per_second=rate(matmul_flops(size), seconds),
        matmul_size=size,
        matmul_runs=len(seconds),
        bytes_per_second=rate(copy_traffic(num_bytes), copies),
        copy_bytes=num_bytes,
        copy_runs=len(copies),
    )


def _timed(work: Callable[[], object], device: torch.device) -> list[float]:
    """Return the durations of RUNS runs in seconds, after a warm-up."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    work()
    seconds = []
    for _ in range(RUNS):
        wait()
        began = time.perf_counter()
        work()
        wait()
        seconds.append(time.perf_counter() - began)
    return seconds


def _versions(*packages: str) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
