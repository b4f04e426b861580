"""Asynchronous copies between the host and the device.

    CPU    host and device share their memory: nothing is copied
    CUDA   to_device: from page-locked memory, in stream order
           to_host:   to page-locked memory, on a separate stream after the work queued so far; the host waits for
                      the copy's event when it reads the result

Page-locked memory is allocated from torch's pool, which reuses none before its copies are done.
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
    """Copies for a device that shares the host's memory; they are no-ops."""

    on_host = True

    def to_device(self, array: npt.NDArray[Any]) -> Tensor:
        """Copy `array` to the device; on the CPU the tensor shares its memory."""
        return torch.from_numpy(array)

    def to_host(self, tensors: Sequence[Tensor]) -> Arrival:
        """Begin to copy tensors from the device to the host. They must not change until the copy is done."""
        return lambda: tensors

    def mark(self) -> Any:
        """Record a timestamp in the device's work queue, for `seconds`."""
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
        self._copy_stream = cuda.Stream(device)

    def to_device(self, array: npt.NDArray[Any]) -> Tensor:
        host = torch.empty(array.shape, dtype=torch.from_numpy(array).dtype, pin_memory=self._pins)
        np.copyto(host.numpy(), array)
        return host.to(self._device, non_blocking=True)

    def to_host(self, tensors: Sequence[Tensor]) -> Arrival:
        self._copy_stream.wait_stream(self._cuda.current_stream(self._device))
        with self._cuda.stream(self._copy_stream):
            hosts = [torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=self._pins) for tensor in tensors]
            for host, tensor in zip(hosts, tensors, strict=True):
                host.copy_(tensor, non_blocking=True)
            copied = self._cuda.Event()
            copied.record(self._copy_stream)
        sources = list(tensors)  # prevents reuse of their memory until the copy is done

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
