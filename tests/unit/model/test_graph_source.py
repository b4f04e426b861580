"""Parsing of the C++ code that TorchInductor generates, of which only known parts are accepted."""

import pytest

from engine.model.graph_source import UnknownSource, units_of

SOURCE = """#include <torch/csrc/inductor/aoti_include/cpu.h>
extern "C" {
void slow_headers_call_this();
} // extern "C"
extern "C" void loop_0(float* out);
CACHE_TORCH_DTYPE(float32);
namespace torch::aot_inductor {
AOTInductorModel::AOTInductorModel() : AOTInductorModelBase(3,
                                           1,
                                           2,
                                           device_str) {
    constants_info_[0].name = "a_weight";
    constants_info_[0].dtype = cached_torch_dtype_float32;
    constants_info_[0].original_fqn = "a.weight";
    constants_info_[1].name = "b";
    constants_info_[1].dtype = cached_torch_dtype_float32;
    constants_info_[1].original_fqn = "b\\"quoted";
}
} // namespace torch::aot_inductor
using namespace torch::aot_inductor;
extern "C" { extern int shim(); }
namespace torch::aot_inductor {
void AOTInductorModel::_const_run_impl() {}
static void check_input_0() {}
void AOTInductorModel::run_impl(
    AtenTensorHandle* input_handles) {
    loop_0(nullptr);
}
} // namespace torch::aot_inductor

#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void loop_0(float* out) {}
"""


def test_the_forward_pass_its_loops_and_constants_are_extracted() -> None:
    forward, kernels = units_of(SOURCE)
    assert kernels.splitlines()[1] == 'extern "C" void loop_0(float* out) {}'
    lines = forward.splitlines()
    assert lines[0] == '#include "runtime.h"' and "loop_0(float* out);" in lines[1]
    for part in ("loop_0(nullptr);", "extern int shim();", "CACHE_TORCH_DTYPE(float32);"):
        assert part in forward
    for part in ("cpu.h", "slow_headers", "AOTInductorModelBase", "_const_run_impl", "check_input_0"):
        assert part not in forward
    assert '    {"a_weight", "a.weight", cached_torch_dtype_float32},' in lines
    assert '    {"b", "b\\"quoted", cached_torch_dtype_float32},' in lines
    assert lines[-1] == "const Code CODE = {CONSTANTS, 2, 3, 1};"


@pytest.mark.parametrize(
    "lost",
    [
        "#include <torch/csrc/inductor/cpp_prefix.h>\n",
        '} // extern "C"\n',
        "using namespace torch::aot_inductor;",
        "run_impl(",
        "AOTInductorModelBase(3,",
        'constants_info_[1].name = "b";',
        'constants_info_[0].original_fqn = "a.weight";',
    ],
)
def test_unknown_generated_code_is_refused(lost: str) -> None:
    with pytest.raises(UnknownSource, match="version of torch"):
        units_of(SOURCE.replace(lost, ""))
