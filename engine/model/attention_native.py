"""Attention of decoding sequences by a C function over the paged pool, built where there is a C compiler.

At a batch of 16 the gather, the product, the softmax and the other product of one layer are eight tensor operations and
copy every key; the function reads keys and values where they lie. Prefills, and stores that hold something else than
float32, go the way of `GatherAttention`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.cache.kv_plane import PlainPlane
from engine.cache.kv_store import KVStore
from engine.model.attention_backend import AttentionCall, DecodeWeights
from engine.model.attention_gather import GatherAttention
from engine.model.batch import StepBatch

SOURCE = Path(__file__).parent / "decode_attention.c"
FLAGS = ("-O3", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math")
# Not every compiler and processor knows these: the first set that compiles is taken.
TUNINGS = (
    ("-march=native", "-mprefer-vector-width=512", "-fopenmp"),
    ("-march=native", "-fopenmp"),
    ("-march=native",),
    (),
)
SERIAL_BELOW = 1 << 17  # multiplications; waking the other threads takes longer than so few
_P, _I, _F = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
_SIGNATURE = (_P, _I, _I, _P, _P, _P, _I, _P, _P, _P, _P, _I, _I, _I, _I, _I, _I, _F, _F, ctypes.c_int)


class NoCompiler(RuntimeError):
    """There is no C compiler here, or it refuses the source; one sentence."""


class NativeAttention(GatherAttention):
    """`GatherAttention` with a decode of its own; the weights are there either way, so showing them changes nothing."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def decode(self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch) -> tuple[Tensor, DecodeWeights]:
        keys_plane, values_plane = store.keys[call.layer], store.values[call.layer]
        if not (isinstance(keys_plane, PlainPlane) and isinstance(values_plane, PlainPlane)):
            return super().decode(call, q, store, batch)
        if q.dtype != torch.float32 or keys_plane.dtype != q.dtype or q.stride(2) != 1:
            return super().decode(call, q, store, batch)
        n, num_heads, width = q.shape
        num_kv_heads, _, v_width = store.shapes[call.layer]
        keys = batch.decode_keys(call.sliding_window)
        length = keys.slots.shape[1]
        out = torch.empty((n, num_heads, v_width))
        weights = torch.empty((n, num_heads, length))
        parallel = n * num_heads * length * width >= SERIAL_BELOW
        self._function(
            q.data_ptr(), q.stride(0), q.stride(1),
            keys_plane.pools[0].data_ptr(), values_plane.pools[0].data_ptr(),
            keys.slots.data_ptr(), keys.slots.stride(0),
            None if keys.mask is None else keys.mask.data_ptr(),
            None if call.sinks is None else call.sinks.data_ptr(),
            out.data_ptr(), weights.data_ptr(),
            n, num_heads, num_kv_heads, width, v_width, length,
            call.scaling, call.softcap or 0.0, torch.get_num_threads() if parallel else 1,
        )  # fmt: skip
        return out, DecodeWeights(keys.key_starts, weights)


@cache
def build_native_attention() -> NativeAttention:
    """Compile the function, in well under a second, and load it; once a process.

    Raises:
        NoCompiler: it cannot be had.
    """
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)
    if compiler is None:
        raise NoCompiler("no C compiler was found")
    with tempfile.TemporaryDirectory(prefix="kvtheater-") as folder:
        library = Path(folder) / "decode_attention.so"
        for tuning in TUNINGS:
            command = [compiler, *FLAGS, *tuning, str(SOURCE), "-o", str(library), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
        else:
            raise NoCompiler(f"{compiler} cannot compile {SOURCE.name}: {' '.join(done.stderr.split())[:200]}")
        function = ctypes.CDLL(str(library)).decode_attention  # stays loaded when the file is gone
    function.argtypes, function.restype = _SIGNATURE, None
    return NativeAttention(function)
