"""Splits TorchInductor's C++ of a graph into two units that compile quickly.

    TorchInductor's file     headers, entry functions of the library     ->  kernels/runtime.h
                             the model: inputs, constants                ->  a table in forward.cpp
                             run_impl: allocations and calls             ->  forward.cpp
                             loops                                       ->  kernels.cpp

torch's headers for the first two take several times as long to compile as the rest.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LOOPS = "#include <torch/csrc/inductor/cpp_prefix.h>\n"
ENTRY_END = '} // extern "C"\n'  # last line of the entry functions
NAMESPACE, USING = "namespace torch::aot_inductor {", "using namespace torch::aot_inductor;"
RUN = "void AOTInductorModel::run_impl("
COUNTS = re.compile(r"AOTInductorModelBase\((\d+),\s*(\d+),\s*(\d+),")  # inputs, outputs, constants
TEXT = r'"(?:[^"\\]|\\.)*"'


class UnknownSource(ValueError):
    """The C++ does not have the expected form, for example in another version of torch."""


class Units(NamedTuple):
    """Two units of a graph's C++, compiled separately."""

    forward: str
    kernels: str


def units_of(source: str) -> Units:
    """Split the C++ source of a graph. Raises UnknownSource."""
    wrapper, loops, kernels = source.partition(LOOPS)
    _, entry_end, wrapper = wrapper.partition(ENTRY_END)
    declared, _, wrapper = wrapper.partition(NAMESPACE)
    model, using, wrapper = wrapper.partition(USING)
    shims, _, wrapper = wrapper.partition(NAMESPACE)
    _, run, body = wrapper.partition(RUN)
    counts = COUNTS.search(model)
    if not (loops and entry_end and using and run and counts):
        raise UnknownSource("the C++ code of this version of torch does not have the expected form")
    num_inputs, num_outputs, num_constants = map(int, counts.groups())
    columns = [_column(model, *field) for field in (("name", TEXT), ("original_fqn", TEXT), ("dtype", r"\w+"))]
    if any(len(column) != num_constants for column in columns):
        raise UnknownSource("the constants in this version of torch's C++ code do not have the expected form")
    table = (
        "".join(f"    {{{', '.join(row)}}},\n" for row in zip(*columns, strict=True)) or "    {nullptr, nullptr, 0},\n"
    )
    forward = (
        f'#include "runtime.h"\n{declared}{USING}{shims}{NAMESPACE}\n{run}{body}\n'
        f"static const Constant CONSTANTS[] = {{\n{table}}};\n"
        f"const Code CODE = {{CONSTANTS, {num_constants}, {num_inputs}, {num_outputs}}};\n"
    )
    return Units(forward, loops + kernels)


def _column(model: str, field: str, value: str) -> list[str]:
    """Return a field of every constant."""
    return re.findall(rf"constants_info_\[\d+\]\.{field} = ({value});", model)
