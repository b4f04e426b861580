"""Fake of `torch.cuda`'s streams and events on the CPU, where work is executed when queued."""

from __future__ import annotations

import contextlib

import torch


class FakeCuda:
    """Streams and events in one class; counts the waits for an event."""

    def __init__(self) -> None:
        self.waited = 0

    def Stream(self, device: torch.device) -> FakeCuda:
        return self

    def Event(self, enable_timing: bool = False) -> FakeCuda:
        return self

    def current_stream(self, device: torch.device) -> FakeCuda:
        return self

    def stream(self, stream: FakeCuda) -> contextlib.nullcontext[None]:
        return contextlib.nullcontext()

    def wait_stream(self, stream: FakeCuda) -> None: ...
    def record(self, stream: FakeCuda) -> None: ...

    def synchronize(self) -> None:
        self.waited += 1

    def elapsed_time(self, end: FakeCuda) -> float:
        return 0.0
