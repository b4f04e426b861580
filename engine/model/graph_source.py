"""Split TorchInductor's C++ of a graph into two units that compile quickly.

    its file     headers, the functions by which a library is called   ->  kernels/runtime.h
                 the model: inputs, constants                          ->  a table, in forward.cpp
                 run_impl: allocates, calls                            ->  forward.cpp
                 loops                                                 ->  kernels.cpp

torch's own headers for the first two take several times as long to compile as everything else together.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LOOPS = "#include <torch/csrc/inductor/cpp_prefix.h>\n"
CALLED = '} // extern "C"\n'  # last line of the entry functions
NAMESPACE, USING = "namespace torch::aot_inductor {", "using namespace torch::aot_inductor;"
RUN = "void AOTInductorModel::run_impl("
COUNTS = re.compile(r"AOTInductorModelBase\((\d+),\s*(\d+),\s*(\d+),")  # inputs, outputs, constants
TEXT = r'"(?:[^"\\]|\\.)*"'


class UnknownSource(ValueError):
    """The C++ has another form, written by another version of torch; one sentence."""


class Units(NamedTuple):
    """Two units of a graph's C++, compiled separately."""

    forward: str
    kernels: str


def units_of(source: str) -> Units:
    """Split the C++ source of a graph. Raises UnknownSource."""
    wrapper, loops, kernels = source.partition(LOOPS)
    _, called, wrapper = wrapper.partition(CALLED)
    declared, _, wrapper = wrapper.partition(NAMESPACE)
    model, using, wrapper = wrapper.partition(USING)
    shims, _, wrapper = wrapper.partition(NAMESPACE)
    _, run, body = wrapper.partition(RUN)
    counts = COUNTS.search(model)
    if not (loops and called and using and run and counts):
        raise UnknownSource("the C++ that this version of torch writes has another form than is known")
    num_inputs, num_outputs, num_constants = map(int, counts.groups())
    columns = [_of_constants(model, *one) for one in (("name", TEXT), ("original_fqn", TEXT), ("dtype", r"\w+"))]
    if any(len(column) != num_constants for column in columns):
        raise UnknownSource("the constants that this version of torch writes have another form than is known")
    table = (
        "".join(f"    {{{', '.join(row)}}},\n" for row in zip(*columns, strict=True)) or "    {nullptr, nullptr, 0},\n"
    )
    forward = (
        f'#include "runtime.h"\n{declared}{USING}{shims}{NAMESPACE}\n{run}{body}\n'
        f"static const Constant CONSTANTS[] = {{\n{table}}};\n"
        f"const Code CODE = {{CONSTANTS, {num_constants}, {num_inputs}, {num_outputs}}};\n"
    )
    return Units(forward, loops + kernels)


def _of_constants(model: str, field: str, value: str) -> list[str]:
    return re.findall(rf"constants_info_\[\d+\]\.{field} = ({value});", model)
