"""Copies between the host and the device, queued so that neither waits for the other.

    CPU    both share one memory: nothing is copied, and nothing waits
    CUDA   up:   out of page-locked memory, in the order of the device's own work
           down: into page-locked memory, on a separate stream after the work queued so far; the host
                 waits for the event of that copy when it reads

Page-locked memory comes from torch's own pool, which reuses none before the copies that use it are done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Arrival = Callable[[], Sequence[Tensor]]  # waits for the copies and returns them


class HostCopies:
    """Copies for a device that shares the host's memory, where they are no-ops."""

    on_host = True

    def up(self, array: npt.NDArray[Any]) -> Tensor:
        """Copy `array` to the device; on the CPU the tensor shares its memory."""
        return torch.from_numpy(array)

    def down(self, tensors: Sequence[Tensor]) -> Arrival:
        """Begin to copy tensors of the device to the host. They must not change until they arrive."""
        return lambda: tensors

    def mark(self) -> Any:
        """Record a point in the device's work; see `seconds`."""
        return time.perf_counter()

    def seconds(self, begin: Any, end: Any) -> float:
        """Return the device time in seconds between two marks; waits for the second one."""
        elapsed: float = end - begin
        return elapsed


class CudaCopies(HostCopies):
    """Copies for a CUDA device. `cuda` provides streams and events, by default `torch.cuda`."""

    on_host = False

    def __init__(self, device: torch.device, cuda: Any = torch.cuda, pin_memory: bool = True) -> None:
        self._device, self._cuda, self._pins = device, cuda, pin_memory
        self._side = cuda.Stream(device)

    def up(self, array: npt.NDArray[Any]) -> Tensor:
        host = torch.empty(array.shape, dtype=torch.from_numpy(array).dtype, pin_memory=self._pins)
        np.copyto(host.numpy(), array)
        return host.to(self._device, non_blocking=True)

    def down(self, tensors: Sequence[Tensor]) -> Arrival:
        self._side.wait_stream(self._cuda.current_stream(self._device))
        with self._cuda.stream(self._side):
            hosts = [torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=self._pins) for tensor in tensors]
            for host, tensor in zip(hosts, tensors, strict=True):
                host.copy_(tensor, non_blocking=True)
            copied = self._cuda.Event()
            copied.record(self._side)
        sources = list(tensors)  # keeps their memory from reuse until they arrive

        def arrive() -> Sequence[Tensor]:
            copied.synchronize()
            sources.clear()
            return hosts

        return arrive

    def mark(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        end.synchronize()
        elapsed: float = begin.elapsed_time(end) / 1000
        return elapsed


@cache
def host_copies(device: torch.device) -> HostCopies:
    """Return the copies for a device; all users of a device share one stream."""
    return HostCopies() if device.type == "cpu" else CudaCopies(device)
