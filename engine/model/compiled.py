"""The forward pass compiled: traced once, merged into few kernels by TorchInductor, served when it is ready.

    model --torch.export--> graph of one token        [1, 1]     a single sequence that decodes
                            graph of T >= 2 tokens    [1, T]     everything else
          --inductor------> machine code, for any T

The graphs hold no attention: each layer calls one opaque operation, `kvtheater::attend`, which finds the step that runs
on its thread and hands q, k, v to the same `StepContext` that the eager path uses. So paging, capture and backends are
not compiled and exist once. What a graph does not know at tracing (the batch, the slots, how long sequences are) never
enters it, so nothing is compiled again while serving.

The result is compared with the eager path before it serves (`served_check`). On the CPU attention and products come
from `kernels/`; on a GPU attention stays with the eager path's backend.

Products and sums are computed in another order than in the eager path, so logits differ in their last bits. Therefore
the path changes only while no request is unfinished, and every step records which one it took (`timing.compiled`). With
`enforce_eager` the eager path always serves, and equal inputs give the same log (`trace.compare.same`).
"""

from __future__ import annotations

import copy
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from engine.model.attention import attending
from engine.model.attention_backend import AttentionCall
from engine.model.attention_native import NativeAttention
from engine.model.compiled_forward import CompiledForward
from engine.model.compiler_cache import use_own_cache
from engine.model.loaded import LoadedModel
from engine.model.merge_linears import MergedWeights, merge_linears
from engine.model.native import native_kernels
from engine.model.packed_linears import OPTIONS as SHIMS
from engine.model.served_check import check_compiled
from engine.model.tracing_thread import keep_tracing_to_its_thread

log = logging.getLogger(__name__)

# By type of device. C++ around the kernels too: the Python between them costs a small model on the CPU more than the
# kernels; on a GPU it would want CUDA's headers, which torch does not bring. One compiling thread: the eager path is
# serving meanwhile, and worker processes would stay.
OPTIONS: dict[str, dict[str, Any]] = {
    "cpu": {"cpp_wrapper": True, "compile_threads": 1, **SHIMS},
    "cuda": {"compile_threads": 1},
}
_one_at_a_time = threading.Lock()  # torch.export keeps what it traces in globals
LONGEST = 1 << 24  # tokens of a step, a bound that tracing wants


class _GraphContext:
    """The context while a graph is traced: it puts one operation into the graph."""

    recorder = None

    def attend(self, call: AttentionCall, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        layer, scaling, window, softcap, sinks = call
        out: Tensor = torch.ops.kvtheater.attend(q, k, v, layer, scaling, window, softcap, sinks)
        return out


class _OneToken(nn.Module):
    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, input_ids: Tensor, position_ids: Tensor) -> Tensor:
        return _logits(self.module, input_ids, position_ids)


class _ManyTokens(nn.Module):
    def __init__(self, module: Any, keeps_logits: bool) -> None:
        super().__init__()
        self.module = module
        self.keeps_logits = keeps_logits

    def forward(self, input_ids: Tensor, position_ids: Tensor, keep: Tensor) -> Tensor:
        if self.keeps_logits:
            return _logits(self.module, input_ids, position_ids, logits_to_keep=keep)
        return _logits(self.module, input_ids, position_ids)[keep]


def _logits(module: Any, input_ids: Tensor, position_ids: Tensor, **options: Any) -> Tensor:
    with attending(_GraphContext()):
        output = module(input_ids=input_ids, position_ids=position_ids, use_cache=False, **options)
    logits: Tensor = output.logits[0].float()
    return logits


def compile_model(model: LoadedModel) -> CompiledForward:
    """Trace, compile, and compare with the eager path, which may serve meanwhile on other threads. Takes tens of
    seconds.

    Raises:
        Exception: the model cannot be traced, there is no C++ compiler, or what it made computes something else;
            nothing has changed then.
    """
    if model.device.type not in OPTIONS:
        raise ValueError("only models on the CPU or on a CUDA device are compiled")
    keep_tracing_to_its_thread()
    kernels = native_kernels() if model.device.type == "cpu" else None
    weights = MergedWeights()
    graphs = [_prepare(exported, model, weights) for exported in _export(model)]
    one, many = [_compile(graph, OPTIONS[model.device.type]) for graph in graphs]
    compiled = CompiledForward(one, many, NativeAttention(kernels) if kernels else None)
    check_compiled(model, compiled)
    return compiled


def _export(model: LoadedModel) -> list[Any]:
    """Both graphs. Tracing puts fake tensors in place of a module's parameters, so it is given modules of its own
    around the same weights, and a thread that serves never meets the fake ones.
    """
    module = copy.deepcopy(model.module, {id(t): t for t in (*model.module.parameters(), *model.module.buffers())})
    size = torch.export.Dim
    tokens, kept = size("tokens", min=2, max=LONGEST), size("kept", min=2, max=LONGEST)
    ids = torch.arange(6, device=model.device)
    with torch.no_grad():
        return [
            torch.export.export(_OneToken(module), (ids[None, :1], ids[None, :1]), strict=False),
            torch.export.export(
                _ManyTokens(module, model.keeps_logits),
                (ids[None], ids[None], ids[:3]),
                dynamic_shapes=({1: tokens}, {1: tokens}, {0: kept}),
                strict=False,
            ),
        ]


def _prepare(exported: Any, model: LoadedModel, weights: MergedWeights) -> torch.fx.GraphModule:
    program = exported.module(check_guards=False)
    graph = torch.fx.GraphModule(program, program.graph)  # without the hooks that check every input of every call
    graph.graph.set_codegen(torch.fx.graph.CodeGen())
    merge_linears(graph, nn.ModuleDict({"module": model.module}), weights)
    return graph


def _compile(graph: torch.fx.GraphModule, options: dict[str, Any]) -> Any:
    use_own_cache()
    inputs = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    with torch.no_grad():
        return torch._inductor.compile(graph, inputs, options=options)


class Compilation(threading.Thread):
    """Compiles a model on a thread of its own while it serves; `model.compiled` is set at the end, or stays None."""

    def __init__(self, model: LoadedModel, ended: Callable[[str], object]) -> None:
        """`ended` is called on the thread at its end, with `error`."""
        super().__init__(name="compile", daemon=True)
        self._model, self._ended = model, ended
        self.error = ""  # why there is nothing, one sentence

    def run(self) -> None:
        began = time.perf_counter()
        if sys.platform == "linux":  # threads have priorities there, and compilers inherit them: serving comes first
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        try:
            with _one_at_a_time:
                self._model.compiled = compile_model(self._model)
        except Exception as error:
            self.error = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            log.warning("%s was not compiled and is served eagerly: %s", self._model.facts.name, self.error)
        else:
            log.info("%s compiled in %.0f s", self._model.facts.name, time.perf_counter() - began)
        self._ended(self.error)


def compile_in_background(model: LoadedModel, ended: Callable[[str], object] = lambda error: None) -> Compilation:
    """Start it."""
    compilation = Compilation(model, ended)
    compilation.start()
    return compilation
