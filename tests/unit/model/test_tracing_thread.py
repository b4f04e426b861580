"""Tracing on one thread does not affect threads that serve."""

import threading
from typing import Any

import torch
from torch import nn
from torch.fx import Tracer, symbolic_trace

from engine.model.tracing_thread import limit_tracing_to_its_thread


def test_tracing_does_not_affect_modules_on_other_threads() -> None:
    limit_tracing_to_its_thread()
    limit_tracing_to_its_thread()
    inside, done = threading.Event(), threading.Event()

    class SlowModule(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            inside.set()
            assert done.wait(10)
            return self.linear(x)

    graphs: list[Any] = []
    thread = threading.Thread(target=lambda: graphs.append(Tracer().trace(SlowModule())))
    thread.start()
    assert inside.wait(10)
    served = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    try:
        assert served(torch.ones(1, 2)).shape == (1, 3)
    finally:
        done.set()
        thread.join()
    calls = [node for graph in graphs for node in graph.nodes if node.op == "call_module"]
    assert [node.target for node in calls] == ["linear"], "only traced calls are in the graph"
    assert symbolic_trace(served).code
