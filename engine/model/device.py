"""Device memory: capacity, use, and errors of failed allocations. Only this module queries an allocator.

Tests replace `ALLOCATOR` to test code that depends on it without a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import psutil
import torch

from engine.model.device_facts import DeviceFacts
from engine.model.errors import ModelError
from engine.options.refusal import sentence
from engine.system.cgroup import memory

MIB = 1 << 20


class DeviceMemory(NamedTuple):
    """Bytes of a device's memory: a GPU's own, or the machine's."""

    free: int
    total: int


class OutOfMemory(ModelError, MemoryError):
    """An allocation failed; the message states the sizes and the remedy."""


class Allocator:
    """Queries to torch's allocator and to the driver."""

    def has_own_memory(self, device: torch.device) -> bool:
        """Return whether the device has memory of its own."""
        return device.type == "cuda"

    def memory(self, device: torch.device) -> DeviceMemory:
        """Return the free and the total memory of the device."""
        if device.type == "cuda":
            return DeviceMemory(*torch.cuda.mem_get_info(device))
        return DeviceMemory(*memory())

    def held(self, device: torch.device) -> int:
        """Return the bytes that this process holds; on a GPU those reserved for tensors, in use or cached."""
        if device.type == "cuda":
            return torch.cuda.memory_reserved(device)
        return int(psutil.Process().memory_info().rss)

    def peak(self, device: torch.device, work: Callable[[], object]) -> int:
        """Return the peak bytes of `work` beyond the current allocation; freed memory returns to the device."""
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        torch.cuda.synchronize(device)
        peak = torch.cuda.max_memory_allocated(device) - before
        torch.cuda.empty_cache()
        return peak

    def name(self, device: torch.device) -> str:
        """Return the name of a GPU, or the type of another device."""
        return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type

    def clock_mhz(self, device: torch.device) -> int | None:
        """Return a GPU's clock rate in MHz; needs the package nvidia-ml-py."""
        return _driver_value(torch.cuda.clock_rate, device)

    def power_watts(self, device: torch.device) -> float | None:
        """Return a GPU's power draw in watts; needs the package nvidia-ml-py."""
        milliwatts = _driver_value(torch.cuda.power_draw, device)
        return None if milliwatts is None else milliwatts / 1000


def _driver_value(query: Callable[[torch.device], int], device: torch.device) -> int | None:
    """Return the driver's value; None without a GPU, without nvidia-ml-py, or if the driver reports none."""
    if device.type != "cuda":
        return None
    try:
        return int(query(device))
    except Exception:  # nvidia-ml-py has many error classes
        return None


ALLOCATOR = Allocator()


def device_facts(device: torch.device) -> DeviceFacts:
    """Return the current facts of a device."""
    memory = ALLOCATOR.memory(device)
    return DeviceFacts(
        name=ALLOCATOR.name(device),
        has_own_memory=ALLOCATOR.has_own_memory(device),
        total_bytes=memory.total,
        free_bytes=memory.free,
        process_bytes=ALLOCATOR.held(device),
        clock_mhz=ALLOCATOR.clock_mhz(device),
        power_watts=ALLOCATOR.power_watts(device),
    )


def out_of_memory(error: BaseException, device: torch.device, what: str, instead: str) -> OutOfMemory | None:
    """Return the error to raise for a failed allocation, or None if `error` is something else. `what` names the purpose
    of the memory, `instead` the remedy.
    """
    text = str(error)
    is_memory = isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "DefaultCPUAllocator" in text
    if not is_memory or isinstance(error, OutOfMemory):
        return None
    memory = ALLOCATOR.memory(device)
    requested = _requested_bytes(text)
    lacks = sentence("memory.asked", asked=size(requested)) if requested else ""
    sizes = {"free": size(memory.free), "total": size(memory.total)}
    return OutOfMemory(sentence("memory", what=what, device=device.type, lacks=lacks, **sizes, instead=instead))


def size(num_bytes: float) -> str:
    """Format bytes as MiB or GiB."""
    return f"{num_bytes / MIB:.0f} MiB" if num_bytes < 1024 * MIB else f"{num_bytes / MIB / 1024:.1f} GiB"


def _requested_bytes(text: str) -> int | None:
    """Return the bytes requested according to an allocator's message, or None."""
    found = re.search(r"[Tt]ried to allocate ([\d.]+) ?([KMG]iB|bytes)", text)
    if found is None:
        return None
    return int(float(found[1]) * {"bytes": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}[found[2]])
