"""Compiled forward pass: traced once, fused into few kernels by TorchInductor, served once it is ready.

    model --torch.export--> graph of one token        [1, 1]     a single sequence that decodes
                            graph of T >= 2 tokens    [1, T]     everything else
          --inductor------> machine code, for any T

The graphs contain no attention: each layer calls one opaque operation, `kvtheater::attend`, which uses the step that
runs on its thread. On the CPU it is a C function that reads the layout of the step (`native_step`). Otherwise it passes
q, k and v to the same `StepContext` that the eager path uses. So paging, capture and backends are not compiled. A graph
does not depend on values that change between steps (batch, slots, sequence lengths), so serving never recompiles.

On the CPU the code is a library without weights. It is cached, so that later starts of the same model trace nothing
(`ahead_of_time`, `forward_key`, `compile_cache`). A server compiles it in a separate process (`compile_in_subprocess`).
The result is compared with the eager path before it serves (`served_check`). Functions in `kernels/` compute attention
and products; on a GPU the eager path's backend computes attention.

Products and sums are computed in another order than in the eager path, so logits differ in their last bits. Therefore
the path changes only while no request is running or waiting, and every step records its path (`timing.compiled`). With
`enforce_eager` the eager path always serves, and equal inputs give the same log (`trace.compare.same`).
"""

from __future__ import annotations

import copy
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import torch
from msgspec import Struct
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.fx.experimental import proxy_tensor

from engine.model.ahead_of_time import CompiledGraph, Origin, bound
from engine.model.attention import attending
from engine.model.attention_backend import AttentionCall
from engine.model.attention_native import NativeAttention
from engine.model.built_library import BuiltLibrary, make_libraries, write_metadata
from engine.model.compile_cache import find, store
from engine.model.compile_in_subprocess import compile_in_subprocess
from engine.model.compiled_forward import ATTEND, SHIM, CompiledForward, step_kernel
from engine.model.early_rows import select_rows_early
from engine.model.forward_key import forward_key
from engine.model.freed_memory import trim_memory
from engine.model.light_transformers import import_compiler
from engine.model.loaded import LoadedModel
from engine.model.means import CannotCompile, missing_requirement
from engine.model.merge_linears import MergedWeights, merge_linears
from engine.model.native import native_kernels
from engine.model.packed_linears import SHIMS as SHIMS_OF_LINEARS
from engine.model.served_check import check_compiled, check_served
from engine.model.tracing_thread import limit_tracing_to_its_thread

log = logging.getLogger(__name__)

# Options for a library, in addition to the CPU's. torch would probe instruction sets with a compiler, which takes
# longer than compiling; if one is missing, compiling fails and the fallback serves. Precompiled headers would be
# written to the temporary folder, which all users share.
LIBRARY_OPTIONS: dict[str, Any] = {
    "cpp.vec_isa_ok": True,
    "aot_inductor.package_constants_in_so": False,
    "aot_inductor.precompile_headers": False,
}
# TorchInductor's options by type of device. On the CPU the wrapper around the kernels is C++, since for a small model a
# Python wrapper costs more than the kernels; on a GPU it would need CUDA's headers, which torch does not include. On
# the CPU one thread compiles, because the eager path serves meanwhile. On a GPU several processes compile one kernel
# each.
OPTIONS: dict[str, dict[str, Any]] = {
    "cpu": {"cpp_wrapper": True, "compile_threads": 1},
    "cuda": {"compile_threads": min(8, os.cpu_count() or 1)},
}
SHIMS = "aot_inductor.custom_ops_to_c_shims"  # operations that compiled code on the CPU calls directly
_one_at_a_time = threading.Lock()  # torch.export has global state
MAX_TOKENS = 1 << 24  # upper bound of a step's tokens, which tracing requires


ONE, MANY, TENSORS = "one", "many", "constants.safetensors"


def cpu_options() -> dict[str, Any]:
    """Return TorchInductor's options for the CPU. Operations without a C shim are called through Python."""
    attend = {ATTEND: [SHIM]} if step_kernel() else {}
    return {**OPTIONS["cpu"], SHIMS: {**SHIMS_OF_LINEARS, **attend}}


class _Facts(Struct, frozen=True):
    """Metadata stored with the two libraries: the origins of their constants, and results of the checks."""

    one: dict[str, Origin]
    many: dict[str, Origin]
    has_tensors: bool
    opened: str | None = None  # the model's name
    refused: dict[str, str] = {}  # as in `CompiledForward`
    early_weights: int = 0


class _GraphContext:
    """Context while a graph is traced: `attend` adds one operation to the graph."""

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
    """Trace and compile a model and compare it with the eager path, which may serve meanwhile on other threads. Takes
    tens of seconds.

    Raises:
        Exception: the model cannot be traced, there is no C++ compiler, or the compiled code computes something else.
            The model is unchanged then.
    """
    if model.device.type not in OPTIONS:
        raise ValueError(f"only models on the CPU or on a CUDA device are compiled, this one is on {model.device.type}")
    if model.only_eager:
        raise ValueError(f"the model is not compiled: {model.only_eager}")
    limit_tracing_to_its_thread()
    if model.device.type != "cpu":
        return _build(model, None)
    key = forward_key(model, {**cpu_options(), **LIBRARY_OPTIONS})
    found = _load_cached(model, key)
    if found is None and (missing := missing_requirement()):  # fail before a minute of tracing, here or in a child
        raise CannotCompile(missing)
    if found is None and key and model.opened is not None and compile_in_subprocess(model):
        found = _load_cached(model, key)
    found = found or _build(model, key)
    trim_memory()  # merging weights and comparing have freed memory
    return found


def compile_to_cache(model: LoadedModel, one: Callable[[], BuiltLibrary | None] | None = None) -> None:
    """Compile a model on the CPU into the cache, for another process. `one` waits for the library of one token, which a
    child process builds; it returns None if the child failed.

    Raises:
        Exception: see `compile_model`.
        ValueError: the compiled model cannot be cached.
    """
    key = forward_key(model, {**cpu_options(), **LIBRARY_OPTIONS})
    if key is None:
        raise ValueError("the model has code that only this process knows")
    if find(key) is not None:
        return
    _build(model, key, one)
    if find(key) is None:
        raise ValueError("the compiled code cannot be cached")


def is_cached(model: LoadedModel) -> bool:
    """Return whether the compiled forward pass of this model on the CPU is cached."""
    key = forward_key(model, {**cpu_options(), **LIBRARY_OPTIONS})
    return key is not None and find(key) is not None


def compile_one(model: LoadedModel, folder: Path) -> None:
    """Build the library of one token, for `compile_to_cache` in another process.

    Raises:
        Exception: see `compile_model`.
    """
    import_compiler()
    weights = MergedWeights()
    write_metadata(_libraries([ONE], model, weights, folder)[ONE])


def _load_cached(model: LoadedModel, key: str | None) -> CompiledForward | None:
    """Return the cached forward pass of a model, or None if there is none or its logits differ from the model's. Each
    kind of KV cache was compared when it was built.
    """
    entry = find(key) if key else None
    if entry is None:
        return None
    try:
        facts = msgspec.convert(entry.facts, _Facts)
        tensors = load_file(entry.folder / TENSORS) if facts.has_tensors else {}
        root, weights = nn.ModuleDict({"module": model.module}), MergedWeights()
        graphs = [
            CompiledGraph(entry.folder / f"{name}.so", bound(origins, root, weights, tensors))
            for name, origins in ((ONE, facts.one), (MANY, facts.many))
        ]
        compiled = _forward(graphs[0], graphs[1], model, facts.early_weights)
        compiled.refused.update(facts.refused)
        check_served(model, compiled)
    except (KeyError, AttributeError, RuntimeError, OSError, ValueError) as error:  # ModelError is a ValueError
        log.warning("cached compiled code is not usable and is compiled again: %s", " ".join(str(error).split()))
        return None
    return compiled


@contextmanager
def _clear_trace_after() -> Iterator[None]:
    """Clear torch's map of the last traced graph on exit, because it keeps the model's weights in memory."""
    try:
        yield
    finally:
        getattr(proxy_tensor, "_FAKE_TENSOR_ID_TO_PROXY_MAP_FOR_EXPORT", {}).clear()


@_clear_trace_after()
def _build(
    model: LoadedModel, key: str | None, one: Callable[[], BuiltLibrary | None] | None = None
) -> CompiledForward:
    """Compile a model and compare it; cache the result if there is a `key`. `one`: see `compile_to_cache`."""
    import_compiler()
    weights = MergedWeights()
    if model.device.type == "cpu":
        with tempfile.TemporaryDirectory(prefix="kvtheater-compiled-") as name:
            folder = Path(name)
            try:
                built = _libraries([ONE, MANY] if one is None else [MANY], model, weights, folder)
                if one is not None:
                    built[ONE] = one() or _libraries([ONE], model, weights, folder)[ONE]
                root, tensors = nn.ModuleDict({"module": model.module}), built[ONE].tensors | built[MANY].tensors
                code = [
                    CompiledGraph(built[name].path, bound(built[name].origins, root, weights, tensors))
                    for name in (ONE, MANY)
                ]
            except Exception as error:  # a compiler may raise anything
                log.info("building libraries failed: %s", " ".join(str(error).split())[:200])
            else:
                compiled = _forward(code[0], code[1], model, built[MANY].early_weights)
                check_compiled(model, compiled)
                if key:
                    opened = model.opened.name if model.opened else None
                    _store(key, built, tensors, folder, opened, compiled.refused)
                return compiled
    options, began = cpu_options() if model.device.type == "cpu" else OPTIONS[model.device.type], time.perf_counter()
    graphs = [_prepare(exported, model, weights) for exported in _export(model, [ONE, MANY])]
    traced = time.perf_counter()
    try:
        code = [_compile(graph, options) for graph in graphs]
    finally:
        _end_compiling_processes()
    early_weights = graphs[1].meta["early_weights"]
    ready, compiled = time.perf_counter(), _forward(code[0], code[1], model, early_weights)
    check_compiled(model, compiled)
    log.info(
        "traced in %.1f s, compiled in %.1f s, compared in %.1f s",
        *(traced - began, ready - traced, time.perf_counter() - ready),
    )
    return compiled


def _store(
    key: str,
    built: dict[str, BuiltLibrary],
    tensors: dict[str, Tensor],
    folder: Path,
    opened: str | None,
    refused: dict[str, str],
) -> None:
    files = built[ONE].files | built[MANY].files
    if tensors:
        files[TENSORS] = folder / TENSORS
        save_file(tensors, files[TENSORS])
    one, many = built[ONE], built[MANY]
    facts = _Facts(one.origins, many.origins, bool(tensors), opened, refused, many.early_weights)
    store(key, files, msgspec.to_builtins(facts))


def _forward(
    one: Callable[..., list[Tensor]], many: Callable[..., list[Tensor]], model: LoadedModel, early_weights: int
) -> CompiledForward:
    kernels = native_kernels() if model.device.type == "cpu" else None
    if kernels is None:
        return CompiledForward(one, many, None, early_weights=early_weights)
    return CompiledForward(one, many, NativeAttention(kernels), step_kernel(), early_weights)


def _libraries(names: list[str], model: LoadedModel, weights: MergedWeights, folder: Path) -> dict[str, BuiltLibrary]:
    graphs = [_prepare(exported, model, weights) for exported in _export(model, names)]
    root = nn.ModuleDict({"module": model.module})
    return make_libraries(
        dict(zip(names, graphs, strict=True)), root, weights, folder, {**cpu_options(), **LIBRARY_OPTIONS}
    )


def _export(model: LoadedModel, names: list[str]) -> list[Any]:
    """Export these graphs. Tracing replaces a module's parameters by fake tensors, so it runs on a copy of the modules
    with the same weights, and serving threads never see the fake ones.
    """
    module = copy.deepcopy(model.module, {id(t): t for t in (*model.module.parameters(), *model.module.buffers())})
    size = torch.export.Dim
    tokens, selected = size("tokens", min=2, max=MAX_TOKENS), size("selected", min=2, max=MAX_TOKENS)
    ids = torch.arange(6, device=model.device)
    found = []
    with torch.no_grad():
        for name in names:
            if name == ONE:
                found.append(torch.export.export(_OneToken(module), (ids[None, :1], ids[None, :1]), strict=False))
                continue
            several = torch.export.export(
                _ManyTokens(module, model.keeps_logits),
                (ids[None], ids[None], ids[:3]),
                dynamic_shapes=({1: tokens}, {1: tokens}, {0: selected}),
                strict=False,
            )
            found.append(several)
    return found


def _prepare(exported: Any, model: LoadedModel, weights: MergedWeights) -> torch.fx.GraphModule:
    program = exported.module(check_guards=False)
    graph = torch.fx.GraphModule(program, program.graph)  # drops the hooks that check the inputs of every call
    graph.graph.set_codegen(torch.fx.graph.CodeGen())
    early = select_rows_early(graph, ATTEND)
    if early and not model.keeps_logits:  # the head's work is counted by sampled rows in any case
        early -= model.facts.vocab_size * model.facts.hidden_size
    graph.meta["early_weights"] = early
    merge_linears(graph, nn.ModuleDict({"module": model.module}), weights)
    return graph


def _compile(graph: torch.fx.GraphModule, options: dict[str, Any]) -> Any:
    from engine.model.compiler_cache import use_own_cache

    use_own_cache()
    inputs = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    with torch.no_grad():
        return torch._inductor.compile(graph, inputs, options=options)


def _end_compiling_processes() -> None:
    """End inductor's worker processes, which would outlive the compilation."""
    from torch._inductor.async_compile import shutdown_compile_workers

    shutdown_compile_workers()


class Compilation(threading.Thread):
    """Thread that compiles a model while it serves, and sets `model.compiled` on success."""

    def __init__(self, model: LoadedModel, on_end: Callable[[str], object]) -> None:
        """`on_end` is called on this thread when it ends, with `error`."""
        super().__init__(name="compile", daemon=True)
        self._model, self._on_end = model, on_end
        self.error = ""  # reason of the failure in one sentence; "" on success

    def run(self) -> None:
        began = time.perf_counter()
        if sys.platform == "linux":  # a lower priority than serving; it is per thread there, and compilers inherit it
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        try:
            with _one_at_a_time:
                self._model.compiled = compile_model(self._model)
        except Exception as error:
            kind = "" if isinstance(error, CannotCompile) else f"{type(error).__name__}: "
            self.error = f"{kind}{' '.join(str(error).split())[:200]}"
            log.warning("%s was not compiled and is served eagerly: %s", self._model.facts.name, self.error)
        else:
            log.info("%s compiled in %.0f s", self._model.facts.name, time.perf_counter() - began)
        self._on_end(self.error)


def compile_in_background(model: LoadedModel, on_end: Callable[[str], object] = lambda error: None) -> Compilation:
    """Start a `Compilation` of the model and return it."""
    compilation = Compilation(model, on_end)
    compilation.start()
    return compilation
