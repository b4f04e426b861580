"""C functions of kernels/, built if there is a C compiler, and cached for the next start (`compile_cache`).

Those for logits, products and captures build in a fraction of a second, before the first step; attention takes a few
seconds and is built on another thread while the model serves.
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

from engine.model.compile_cache import find, keep, making
from engine.system.compilers import c_compiler
from engine.system.host import shared_library

log = logging.getLogger(__name__)
T = TypeVar("T")

SOURCES = Path(__file__).parent / "kernels"
LIBRARY = "kernels.so"
FLAGS = ("-O3", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math")
# Instruction set of the compiled functions: this processor's, or another one's, to reproduce what its users get (as
# ATEN_CPU_CAPABILITY and MKL_ENABLE_INSTRUCTIONS do for torch and for MKL).
MARCH = f"-march={os.environ.get('KVTHEATER_MARCH', 'native')}"
# Not every compiler and processor supports these: the first set that compiles is used.
TUNINGS = (
    (MARCH, "-mprefer-vector-width=512", "-fopenmp"),
    (MARCH, "-fopenmp"),
    (MARCH,),
    (),
)
SERIAL_BELOW = 1 << 17  # numbers to read; waking other threads takes longer than reading fewer
# dtypes of panels by torch's own numbers, as in linear.c; uint8: two int4 weights
KINDS = {torch.float32: 6, torch.bfloat16: 15, torch.int8: 1, torch.uint8: 0}
SCALES = 4  # lines before the weights of an int8 panel: 16 float32 scales
SHARED, SHARED_LINES = 32, 18  # weights of a column of an int4 panel with the same scale, and the lines that they take
_P, _I, _F = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float


class NoCompiler(RuntimeError):
    """No C compiler was found, or it rejects the source; one sentence."""


class LogitKernels:
    """Summary statistics of logits, callable from any thread."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._summarize = library.summarize_logits
        self._summarize.argtypes = (_P, _I, _I, _I, _P, _P, _P, ctypes.c_int)
        self._summarize.restype = None
        self._results = threading.local()  # .last: a _Figures

    def summarize(self, logits: Tensor, count: int) -> tuple[Tensor, list[list[int]], list[list[float]]]:
        """Return, for contiguous float32 logits [S, V], the log of the sum of e^x [S], and the ids and log
        probabilities of the `count` (1 to V) most probable tokens of each row, the first of equals first.

        The sums are valid until this thread's next call.
        """
        rows, width = logits.shape
        found: _Figures | None = getattr(self._results, "last", None)
        if found is None or found.shape != (rows, count):
            found = self._results.last = _Figures(rows, count)
        self._summarize(logits.data_ptr(), rows, width, count, *found.addresses, threads_for(rows * width))
        return found.total, found.ids.tolist(), found.logprobs.tolist()


class _Figures:
    """Output buffers of a thread, reused while the shape is the same, as in every step of a decode."""

    def __init__(self, rows: int, count: int) -> None:
        self.shape = rows, count
        total = np.empty(rows, np.float32)
        self.ids, self.logprobs = np.empty(self.shape, np.int64), np.empty(self.shape, np.float64)
        self.addresses = tuple(array.ctypes.data for array in (total, self.ids, self.logprobs))
        self.total = torch.from_numpy(total)


def width_of(lines: int, dtype: torch.dtype) -> int:
    """Return the weights of a column of a panel with so many lines."""
    if dtype == torch.uint8:
        return lines // SHARED_LINES * SHARED
    return lines - SCALES if dtype == torch.int8 else lines


class LinearKernel:
    """Products with weights in panels (`packed_linears`), callable from any thread and from compiled code."""

    def __init__(self, library: ctypes.CDLL) -> None:
        """Bind the functions. Raises OSError if torch's C functions are missing, or without OpenMP (one core only)."""
        if not _given_torch(library):
            raise OSError("the C compiler knows no OpenMP")
        self._panels = library.linear_panels
        self._panels.argtypes = (_P, _P, _P, _I, _I, _I, ctypes.c_int)
        self._panels.restype = ctypes.c_int

    def multiply(self, x: Tensor, panels: Tensor) -> Tensor:
        """Multiply float32 x [..., K] by panels of `packed_linears` -> [..., N].

        Raises:
            ValueError: x has another dtype or width, or the panels another dtype; the C function would silently read
                something else.
            MemoryError: no memory for the product.
        """
        blocks, lines, lanes = panels.shape
        kind = KINDS.get(panels.dtype)
        if kind is None:
            raise ValueError(f"panels are {panels.dtype}; {', '.join(map(str, KINDS))} are multiplied")
        width = width_of(lines, panels.dtype)
        if x.dtype != torch.float32 or not x.ndim or x.shape[-1] != width:
            raise ValueError(f"x is {x.dtype} {tuple(x.shape)}, the weights take float32 [..., {width}]")
        x = x.contiguous()
        out = x.new_empty((*x.shape[:-1], blocks * lanes))
        rows = x.numel() // width
        if self._panels(x.data_ptr(), panels.data_ptr(), out.data_ptr(), rows, width, blocks * lanes, kind):
            raise MemoryError(f"no memory for a product of {x.numel()} numbers")
        return out


class CaptureKernel:
    """Layout of a step's layers as the log's bytes, and rounding of arrays into them; callable from any thread. Shapes
    are not checked.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self.store_layer = library.store_layer
        self.store_layer.argtypes, self.store_layer.restype = ((_P,) * 8 + (ctypes.c_int,)), None
        self.store_prefill = library.store_prefill
        self.store_prefill.argtypes, self.store_prefill.restype = (_P, _P, _P, _I), None
        self.lay_out = ctypes.PyDLL(library._name).lay_out  # PyDLL: it takes less time than releasing the GIL
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
        _given_torch(library)
        self.step = StepKernel(library)


Otherwise = ctypes.CFUNCTYPE(ctypes.c_int32, _P, _P, _P, _I, ctypes.c_double, *[_P] * 4)  # `otherwise` of attend.c


class StepKernel:
    """Attention for compiled code, in steps laid out by `native_step`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        # PyDLL holds the GIL: these functions take less time than releasing it.
        held = ctypes.PyDLL(library._name)
        self.begin_step = held.begin_step
        self.begin_step.argtypes, self.begin_step.restype = (_P,), None
        self.end_step: Callable[[Any], int] = held.end_step
        held.end_step.argtypes, held.end_step.restype = (_P,), _I
        self._set = held.attend_otherwise
        self._set.argtypes, self._set.restype = (Otherwise,), None
        self._otherwise: Any = None

    def set_otherwise(self, in_python: Callable[..., int]) -> None:
        """Set the callback for layers of steps without a layout; arguments as in attend.c, returns 0 on success."""
        self._otherwise = Otherwise(in_python)  # keeps the callback alive, since C has its address
        self._set(self._otherwise)


def _given_torch(library: ctypes.CDLL) -> bool:
    """Pass torch's C functions to a library; return whether the library uses every core (OpenMP).

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
    """Return the number of threads to use for reading so many numbers."""
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
        OSError: torch's C functions are missing, or it would multiply on one core only.
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
    """Return `build_logits()`, or None if it fails: tensor operations give the same figures."""
    return _if_possible(build_logits, "the figures of logits stay")


@cache
def linear_kernel() -> LinearKernel | None:
    """Return `build_linear()`, or None if it fails: weights keep a plain layout (`cpu_layout`)."""
    return _if_possible(build_linear, "products stay")


@cache
def native_kernels() -> NativeKernels | None:
    """Return `build_native()`, or None if it fails: tensor operations compute the same."""
    return _if_possible(build_native, "attention stays")


@cache
def capture_kernel() -> CaptureKernel | None:
    """Return `build_capture()`, or None if it fails: tensor operations round the same."""
    return _if_possible(build_capture, "captures stay")


def _if_possible(build: Callable[[], T], what_stays: str) -> T | None:
    try:
        return build()
    except (NoCompiler, OSError) as error:  # OSError: the temporary folder is full or noexec
        log.warning("%s with tensor operations: %s", what_stays, error)
        return None


def _built(*names: str) -> ctypes.CDLL:
    compiler = c_compiler()
    if compiler is None:
        raise NoCompiler("no C compiler was found")
    key = _key(names, compiler)
    if (kept := _kept(key)) is not None:
        return kept
    with making(key):  # a server and its compiler process build the same at the same time
        return _kept(key) or _compiled(names, compiler, key)


def _kept(key: str) -> ctypes.CDLL | None:
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
                keep(key, {LIBRARY: library}, {})
                return _loaded(library)
    raise NoCompiler(f"{compiler} cannot compile {', '.join(names)}: {' '.join(done.stderr.split())[:200]}")


def _loaded(library: Path) -> ctypes.CDLL:
    # Stays loaded after the file is deleted. Global: compiled code resolves `aoti_torch_cpu_linear` by name.
    return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def _key(names: tuple[str, ...], compiler: str) -> str:
    """Return the cache key of a library: everything it depends on beside the machine (source, flags, compiler)."""
    files = *names, *sorted(header.name for header in SOURCES.glob("*.h"))
    sources = [(SOURCES / file).read_text(encoding="utf-8") for file in files]
    real = Path(compiler).resolve()
    found = real.stat()
    return json.dumps(["kernel", names, sources, FLAGS, TUNINGS, str(real), found.st_size, found.st_mtime_ns])
