"""Builds libraries from traced graphs: TorchInductor writes C++ (`graph_source`), and a compiler runs for each unit.

The units of a graph are compiled in parallel, on as many threads as a step uses, while the next graph is still lowered
to C++. TorchInductor would compile them one after the other.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from engine.model.graph_source import units_of

SOURCES = {"aot_inductor.package": True, "aot_inductor.package_cpp_only": True}  # emit only the C++ of a graph
# TorchInductor's flags that are omitted: optimization levels are set for each unit, and warnings, line tables and frame
# pointers only serve its developers.
OMITTED = frozenset({"O0", "O1", "O2", "O3", "Wall", "pedantic", "g1", "gline-tables-only", "fno-omit-frame-pointer"})
# Flags of processor features, which only the unit with loops needs. With them torch's headers include the compiler's
# headers of all vector instructions, which take a fourth of the other unit's compile time.
LOOP_FLAGS = ("-DCPU_CAPABILITY", "-march", "-mcpu", "-mavx", "-mfma", "-mf16c", "-mamx")
RUNTIME = Path(__file__).parent / "kernels"  # folder of runtime.h


class CannotBuild(RuntimeError):
    """There is no C++ compiler, or it rejects a unit; the message is one sentence."""


class Library(NamedTuple):
    """A graph whose units are being compiled."""

    path: Path  # of the future library; a .json beside it lists the operations that it calls
    units: list[Future[Path]]  # object files


class Builder:
    """Builder of libraries in a folder, created by `building`."""

    def __init__(self, folder: Path, options: Mapping[str, Any], pool: ThreadPoolExecutor) -> None:
        """`options`: TorchInductor's. Raises CannotBuild."""
        from torch._inductor import config
        from torch._inductor.cpp_builder import CppTorchDeviceOptions
        from torch._inductor.cpu_vec_isa import pick_vec_isa

        self._folder, self._pool = folder, pool
        self._options = {**options, **SOURCES}
        with config.patch({"cpp.vec_isa_ok": options.get("cpp.vec_isa_ok")}):
            cpp = CppTorchDeviceOptions(vec_isa=pick_vec_isa(), device_type="cpu", aot_mode=True)
        compiler = shutil.which(cpp.get_compiler())
        if compiler is None:
            raise CannotBuild("no C++ compiler was found")
        self._compile = [
            compiler,
            *(f"-D{name.strip()}" for name in cpp.get_definitions()),
            *(f"-{flag}" for flag in cpp.get_cflags() if flag not in OMITTED),
            f"-I{RUNTIME}",
            *(f"-I{folder}" for folder in cpp.get_include_dirs()),
            *(word for words in cpp.get_passthrough_args() for word in words.split()),
        ]
        self._link = [
            *(f"-{flag}" for flag in cpp.get_ldflags()),
            *(f"-L{folder}" for folder in cpp.get_libraries_dirs()),
            *(f"-l{name}" for name in cpp.get_libraries()),
        ]

    def begin(self, name: str, graph: torch.fx.GraphModule) -> Library:
        """Lower a graph to C++ and start to compile it.

        Raises:
            UnknownSource: the C++ does not have the expected form.
            Exception: TorchInductor cannot lower it.
        """
        inputs = tuple(node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder")
        options = {**self._options, "aot_inductor.output_path": str(self._folder / name)}
        with torch.no_grad():
            outputs: Any = torch._inductor.aot_compile(graph, inputs, options=options)
        path = self._folder / f"{name}.so"
        files = [Path(file) for file in outputs if isinstance(file, str)]
        for calls in (file for file in files if file.name.endswith(".wrapper.json")):
            calls.rename(path.with_suffix(".json"))
        (source,) = (file for file in files if file.name.endswith(".wrapper.cpp"))
        units = units_of(source.read_text(encoding="utf-8"))
        flags = [flag for flag in self._compile if flag != "-shared"]
        plain = [flag for flag in flags if not flag.startswith(LOOP_FLAGS)]
        return Library(
            path,
            [
                self._pool.submit(self._object, f"{name}-kernels", units.kernels, [*flags, "-O3"]),
                self._pool.submit(self._object, f"{name}-forward", units.forward, [*plain, "-O1"]),
            ],
        )

    def finish(self, library: Library) -> Path:
        """Link the compiled units and return the library's path. Raises CannotBuild."""
        objects = [str(unit.result()) for unit in library.units]
        _run([*self._compile, "-shared", *objects, "-o", str(library.path), *self._link])
        return library.path

    def _object(self, name: str, source: str, command: list[str]) -> Path:
        unit, compiled = self._folder / f"{name}.cpp", self._folder / f"{name}.o"
        unit.write_text(source, encoding="utf-8")
        _run([*command, "-c", str(unit), "-o", str(compiled)])
        return compiled


@contextmanager
def building(folder: Path, options: Mapping[str, Any]) -> Iterator[Builder]:
    """Yield a builder; its compilers have ended when the `with` ends. Raises CannotBuild without a compiler."""
    with ThreadPoolExecutor(max(1, torch.get_num_threads()), "c++") as pool:
        try:
            yield Builder(folder, options, pool)
        finally:
            pool.shutdown(cancel_futures=True)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild(f"{command[0]} failed: {' '.join(done.stderr.split())[:300]}")
