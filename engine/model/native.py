"""C functions of kernels/, built if there is a C compiler, and cached for later starts (`compile_cache`).

The functions for logits, products and captures are built in a fraction of a second, before the first step. Attention
takes a few seconds and is built on another thread while the model serves.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from engine.model.compile_cache import entry_lock, find, store
from engine.system.compilers import c_compiler
from engine.system.host import shared_library

log = logging.getLogger(__name__)
T = TypeVar("T")

SOURCES = Path(__file__).parent / "kernels"
LIBRARY = "kernels.so"
FLAGS = ("-O3", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math")
# Instruction set of the compiled functions. KVTHEATER_MARCH selects another one, to reproduce the results of another
# processor, as ATEN_CPU_CAPABILITY and MKL_ENABLE_INSTRUCTIONS do for torch and MKL.
MARCH = f"-march={os.environ.get('KVTHEATER_MARCH', 'native')}"
# The first set of flags that compiles is used: not every compiler and processor supports them.
TUNINGS = (
    (MARCH, "-mprefer-vector-width=512", "-fopenmp"),
    (MARCH, "-fopenmp"),
    (MARCH,),
    (),
)
SERIAL_BELOW = 1 << 17  # a loop that reads fewer numbers is serial, since waking other threads would take longer
# torch's dtype numbers of panels, as in linear.c; uint8: two int4 weights per byte
KINDS = {torch.float32: 6, torch.bfloat16: 15, torch.int8: 1, torch.uint8: 0}
SCALES = 4  # lines before the weights of an int8 panel, with 16 float32 scales
SHARED, SHARED_LINES = 32, 18  # weights per scale in a column of an int4 panel, and their number of lines
_P, _I, _F = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float


class NoCompiler(RuntimeError):
    """No C compiler was found, or it rejects the source; the message is one sentence."""


class LogitKernels:
    """Summary statistics of logits, callable from any thread."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._summarize = library.summarize_logits
        self._summarize.argtypes = (_P, _I, _I, _I, _P, _P, _P, ctypes.c_int)
        self._summarize.restype = None
        self._results = threading.local()  # .last: a _Figures

    def summarize(self, logits: Tensor, count: int) -> tuple[Tensor, list[list[int]], list[list[float]]]:
        """Return the log of the sum of e^x [S] of contiguous float32 logits [S, V], and the ids and log probabilities
        of the `count` (1 to V) most probable tokens of each row, ties by id.

        The sums are valid until this thread's next call.
        """
        rows, width = logits.shape
        found: _Figures | None = getattr(self._results, "last", None)
        if found is None or found.shape != (rows, count):
            found = self._results.last = _Figures(rows, count)
        self._summarize(logits.data_ptr(), rows, width, count, *found.addresses, threads_for(rows * width))
        return found.total, found.ids.tolist(), found.logprobs.tolist()


class _Figures:
    """Output buffers of a thread, reused while the shape does not change, as in consecutive decode steps."""

    def __init__(self, rows: int, count: int) -> None:
        self.shape = rows, count
        total = np.empty(rows, np.float32)
        self.ids, self.logprobs = np.empty(self.shape, np.int64), np.empty(self.shape, np.float64)
        self.addresses = tuple(array.ctypes.data for array in (total, self.ids, self.logprobs))
        self.total = torch.from_numpy(total)


def width_of(lines: int, dtype: torch.dtype) -> int:
    """Return the number of weights in a column of a panel with `lines` lines."""
    if dtype == torch.uint8:
        return lines // SHARED_LINES * SHARED
    return lines - SCALES if dtype == torch.int8 else lines


class LinearKernel:
    """Products with weights in panels (`packed_linears`), callable from any thread and from compiled code."""

    def __init__(self, library: ctypes.CDLL) -> None:
        """Bind the functions. Raises OSError if torch's C functions are missing, or without OpenMP (one core only)."""
        if not _bind_torch(library):
            raise OSError("the C compiler does not support OpenMP")
        self._panels = library.linear_panels
        self._panels.argtypes = (_P, _P, _P, _I, _I, _I, ctypes.c_int)
        self._panels.restype = ctypes.c_int

    def multiply(self, x: Tensor, panels: Tensor) -> Tensor:
        """Multiply float32 x [..., K] by panels of `packed_linears` -> [..., N].

        Raises:
            ValueError: x has another dtype or width, or the panels have an unknown dtype.
            MemoryError: there is no memory for the product.
        """
        blocks, lines, lanes = panels.shape
        kind = KINDS.get(panels.dtype)
        if kind is None:
            raise ValueError(f"panels must be one of {', '.join(map(str, KINDS))}, got {panels.dtype}")
        width = width_of(lines, panels.dtype)
        if x.dtype != torch.float32 or not x.ndim or x.shape[-1] != width:
            raise ValueError(f"x must be float32 [..., {width}], got {x.dtype} {tuple(x.shape)}")
        x = x.contiguous()
        out = x.new_empty((*x.shape[:-1], blocks * lanes))
        rows = x.numel() // width
        if self._panels(x.data_ptr(), panels.data_ptr(), out.data_ptr(), rows, width, blocks * lanes, kind):
            raise MemoryError(f"out of memory in a product of {x.numel()} numbers")
        return out


class CaptureKernel:
    """Functions that encode a step's layers as the log's bytes; callable from any thread. Shapes are not checked."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.store_layer = library.store_layer
        self.store_layer.argtypes, self.store_layer.restype = ((_P,) * 8 + (ctypes.c_int,)), None
        self.store_prefill = library.store_prefill
        self.store_prefill.argtypes, self.store_prefill.restype = (_P, _P, _P, _I), None
        self.lay_out = ctypes.PyDLL(library._name).lay_out  # PyDLL holds the GIL: releasing it would take longer
        self.lay_out.argtypes = (_P,) * 4
        self.lay_out.restype = _I


class NativeKernels:
    """Attention, callable from any thread. Shapes and strides are not checked."""

    def __init__(self, library: ctypes.CDLL) -> None:
        """Bind the functions. Raises OSError if torch's C functions are missing."""
        self.decode_attention = library.decode_attention
        self.decode_attention.argtypes = (
            _P, _I, _I, _P, _P, _P, _P, _I, _P, _P, _P, _P, _I, _I, _I, _I, _I, _I, _F, _F, ctypes.c_int
        )  # fmt: skip
        self.decode_attention.restype = None
        self.prefill_spans = library.prefill_spans
        self.prefill_spans.argtypes = (_P, _I, _I, *[_P] * 3, _I, *[_P] * 4, *[_I] * 6, _F, _F, ctypes.c_int)
        self.prefill_spans.restype = ctypes.c_int
        _bind_torch(library)
        self.step = StepKernel(library)


Fallback = ctypes.CFUNCTYPE(ctypes.c_int32, _P, _P, _P, _I, ctypes.c_double, *[_P] * 4)  # `fallback` of attend.c


class StepKernel:
    """Attention for compiled code, in steps laid out by `native_step`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        # PyDLL holds the GIL: releasing it would take longer than these functions.
        with_gil = ctypes.PyDLL(library._name)
        self.begin_step = with_gil.begin_step
        self.begin_step.argtypes, self.begin_step.restype = (_P,), None
        self.end_step: Callable[[Any], int] = with_gil.end_step
        with_gil.end_step.argtypes, with_gil.end_step.restype = (_P,), _I
        self._set_fallback = with_gil.set_attend_fallback
        self._set_fallback.argtypes, self._set_fallback.restype = (Fallback,), None
        self._fallback: Any = None

    def set_fallback(self, in_python: Callable[..., int]) -> None:
        """Set the callback for steps without a layout. It has the arguments of attend.c and returns 0 on success."""
        self._fallback = Fallback(in_python)  # keeps the callback alive, since C has its address
        self._set_fallback(self._fallback)


def _bind_torch(library: ctypes.CDLL) -> bool:
    """Pass torch's C functions to a library; return whether the library uses all cores (OpenMP).

    Raises:
        OSError: a function is missing.
    """
    names = ("get_data_ptr", "get_dim", "get_dtype", "get_sizes", "get_strides", "empty_strided")
    found = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / shared_library("torch_cpu")))
    try:
        addresses = [ctypes.cast(getattr(found, f"aoti_torch_{name}"), _P) for name in names]
    except AttributeError as error:
        raise OSError(str(error)) from None
    library.use_torch.argtypes = (_P,) * len(names)
    return bool(library.use_torch(*addresses))


def threads_for(numbers: int) -> int:
    """Return the number of threads for a loop that reads `numbers` numbers."""
    return torch.get_num_threads() if numbers >= SERIAL_BELOW else 1


@cache
def build_logits() -> LogitKernels:
    """Compile and load logits.c.

    Raises:
        NoCompiler: it cannot be compiled.
    """
    return LogitKernels(_built("logits.c"))


@cache
def build_linear() -> LinearKernel:
    """Compile and load linear.c.

    Raises:
        NoCompiler: it cannot be compiled.
        OSError: torch's C functions are missing, or it would use one core only.
    """
    return LinearKernel(_built("linear.c"))


@cache
def build_native() -> NativeKernels:
    """Compile and load attention.c, with attend.c and its dependencies.

    Raises:
        NoCompiler: it cannot be compiled.
        OSError: torch's C functions are missing.
    """
    return NativeKernels(_built("attention.c", "attend.c", "capture.c"))


@cache
def build_capture() -> CaptureKernel:
    """Compile and load capture.c and layout.c.

    Raises:
        NoCompiler: it cannot be compiled.
    """
    return CaptureKernel(_built("capture.c", "layout.c"))


@cache
def logit_kernels() -> LogitKernels | None:
    """Return `build_logits()`, or None if it fails: tensor operations compute the same figures."""
    return _if_possible(build_logits, "the summary statistics of logits")


@cache
def linear_kernel() -> LinearKernel | None:
    """Return `build_linear()`, or None if it fails: weights then have a plain layout (`cpu_layout`)."""
    return _if_possible(build_linear, "products")


@cache
def native_kernels() -> NativeKernels | None:
    """Return `build_native()`, or None if it fails: tensor operations compute the same attention."""
    return _if_possible(build_native, "attention")


@cache
def capture_kernel() -> CaptureKernel | None:
    """Return `build_capture()`, or None if it fails: tensor operations round in the same way."""
    return _if_possible(build_capture, "captures")


def _if_possible(build: Callable[[], T], purpose: str) -> T | None:
    try:
        return build()
    except (NoCompiler, OSError) as error:  # OSError: the temporary folder is full or noexec
        log.warning("tensor operations compute %s, because their C functions are missing: %s", purpose, error)
        return None


def _built(*names: str) -> ctypes.CDLL:
    compiler = c_compiler()
    if compiler is None:
        raise NoCompiler("no C compiler was found")
    key = _key(names, compiler)
    if (cached := _cached(key)) is not None:
        return cached
    with entry_lock(key):  # a server and its compiler process may build the same library concurrently
        return _cached(key) or _compiled(names, compiler, key)


def _cached(key: str) -> ctypes.CDLL | None:
    found = find(key)
    if found is not None:
        with contextlib.suppress(OSError):  # the folder is noexec
            return _loaded(found.folder / LIBRARY)
    return None


def _compiled(names: tuple[str, ...], compiler: str, key: str) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(prefix="kvtheater-") as folder:
        library = Path(folder) / LIBRARY
        for tuning in TUNINGS:
            sources = [str(SOURCES / name) for name in names]
            command = [compiler, *FLAGS, *tuning, *sources, "-o", str(library), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                store(key, {LIBRARY: library}, {})
                return _loaded(library)
    raise NoCompiler(f"{compiler} cannot compile {', '.join(names)}: {' '.join(done.stderr.split())[:200]}")


def _loaded(library: Path) -> ctypes.CDLL:
    # It remains loaded after the file is deleted. RTLD_GLOBAL: compiled code resolves `aoti_torch_cpu_linear` by name.
    return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def _key(names: tuple[str, ...], compiler: str) -> str:
    """Return the cache key of a library: source, flags and compiler. The machine is part of the cache's path."""
    files = *names, *sorted(header.name for header in SOURCES.glob("*.h"))
    sources = [(SOURCES / file).read_text(encoding="utf-8") for file in files]
    real = Path(compiler).resolve()
    found = real.stat()
    return json.dumps(["kernel", names, sources, FLAGS, TUNINGS, str(real), found.st_size, found.st_mtime_ns])
