/* Entry functions through which torch calls a library of compiled code, and the runtime of that code. torch's headers
 * for both take several times as long to compile as the code: they fold, copy and own constants, which here are the
 * model's tensors, and create a model per thread, although a run does not modify it.
 *
 * This file is included first in TorchInductor's source of a graph (`graph_source`), which ends with CODE.
 */
#pragma once
#include <dlfcn.h>

#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <c10/util/generic_math.h>
#include <torch/csrc/inductor/aoti_runtime/interface.h>
#include <torch/csrc/inductor/aoti_runtime/scalar_to_tensor.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>

namespace torch::aot_inductor {
using DeviceStreamType = void *;
struct AOTInductorModelKernels {};

struct AOTInductorModel {
    std::unique_ptr<AOTInductorModelKernels> kernels_ = std::make_unique<AOTInductorModelKernels>(); /* for GPUs */
    std::unique_ptr<std::vector<ConstantHandle>> constants_;
    std::vector<RAIIAtenTensorHandle> tensors; /* of the constants */
    int32_t device_idx_ = -1;

    void run_impl(AtenTensorHandle *input_handles, AtenTensorHandle *output_handles, DeviceStreamType stream,
                  AOTIProxyExecutorHandle proxy_executor);
};
} // namespace torch::aot_inductor

struct Constant {
    const char *name, *original;
    int32_t dtype;
};

struct Code {
    const Constant *constants;
    size_t num_constants, num_inputs, num_outputs;
};
extern const Code CODE;

/* torch's input checks are omitted, because the callers are known. */
static constexpr bool _check_aoti_runtime_check_inputs_env() { return false; }
static inline void __check_inputs_outputs(AtenTensorHandle *, AtenTensorHandle *) {}

static thread_local std::string last_error;

template <typename Work> static AOTIRuntimeError guarded(Work &&work) {
    try {
        work();
        return AOTI_RUNTIME_SUCCESS;
    } catch (const std::exception &error) {
        last_error = error.what();
    } catch (...) {
        last_error = "an exception of an unknown type";
    }
    return AOTI_RUNTIME_FAILURE;
}

/* Releases the GIL while a graph runs, since torch's binding holds it; operations that need it acquire it again. The
 * functions are looked up at run time, because a process that only compiles may have no interpreter.
 */
class Unlocked {
    static void *find(const char *name) { return dlsym(RTLD_DEFAULT, name); }
    void *state = nullptr;

  public:
    Unlocked() {
        static const auto held = reinterpret_cast<int (*)()>(find("PyGILState_Check"));
        static const auto save = reinterpret_cast<void *(*)()>(find("PyEval_SaveThread"));
        if (held && save && held())
            state = save();
    }
    ~Unlocked() {
        static const auto restore = reinterpret_cast<void (*)(void *)>(find("PyEval_RestoreThread"));
        if (state)
            restore(state);
    }
    Unlocked(const Unlocked &) = delete;
};

typedef AOTInductorModelContainerHandle Handle;
static torch::aot_inductor::AOTInductorModel *model_of(Handle handle) {
    return reinterpret_cast<torch::aot_inductor::AOTInductorModel *>(handle);
}

static AOTIRuntimeError run(Handle handle, AtenTensorHandle *inputs, size_t num_inputs, AtenTensorHandle *outputs,
                            size_t num_outputs, AOTInductorStreamHandle, AOTIProxyExecutorHandle executor) {
    Unlocked unlocked;
    return guarded([&] {
        if (num_inputs != CODE.num_inputs || num_outputs != CODE.num_outputs)
            throw std::runtime_error("wrong number of inputs or outputs");
        bool before = aoti_torch_grad_mode_is_enabled();
        aoti_torch_grad_mode_set_enabled(false);
        try {
            model_of(handle)->run_impl(inputs, outputs, nullptr, executor);
        } catch (...) {
            aoti_torch_grad_mode_set_enabled(before);
            throw;
        }
        aoti_torch_grad_mode_set_enabled(before);
    });
}

/* Binds every constant to the tensor of its name without copying; replaces earlier bindings. */
static AOTIRuntimeError bind(Handle handle, AOTInductorConstantMapHandle map) {
    return guarded([&] {
        auto &constants = *reinterpret_cast<std::unordered_map<std::string, AtenTensorHandle> *>(map);
        auto bound = std::make_unique<std::vector<torch::aot_inductor::ConstantHandle>>();
        std::vector<torch::aot_inductor::RAIIAtenTensorHandle> tensors;
        for (size_t i = 0; i < CODE.num_constants; i++) {
            AtenTensorHandle copy = nullptr;
            AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(constants.at(CODE.constants[i].name), &copy));
            tensors.emplace_back(copy);
            bound->emplace_back(copy);
        }
        auto *model = model_of(handle);
        model->constants_ = std::move(bound);
        model->tensors = std::move(tensors);
    });
}

extern "C" {
AOTIRuntimeError AOTInductorModelContainerCreateWithDevice(Handle *handle, size_t, const char *, const char *) {
    return guarded([&] { *handle = reinterpret_cast<Handle>(new torch::aot_inductor::AOTInductorModel()); });
}

AOTIRuntimeError AOTInductorModelContainerDelete(Handle handle) {
    return guarded([&] { delete model_of(handle); });
}

AOTIRuntimeError AOTInductorModelContainerRun(Handle handle, AtenTensorHandle *inputs, size_t num_inputs,
                                              AtenTensorHandle *outputs, size_t num_outputs,
                                              AOTInductorStreamHandle stream, AOTIProxyExecutorHandle executor) {
    return run(handle, inputs, num_inputs, outputs, num_outputs, stream, executor);
}

AOTIRuntimeError AOTInductorModelContainerRunSingleThreaded(Handle handle, AtenTensorHandle *inputs, size_t num_inputs,
                                                            AtenTensorHandle *outputs, size_t num_outputs,
                                                            AOTInductorStreamHandle stream,
                                                            AOTIProxyExecutorHandle executor) {
    return run(handle, inputs, num_inputs, outputs, num_outputs, stream, executor);
}

AOTIRuntimeError AOTInductorModelContainerGetNumOutputs(Handle, size_t *count) {
    *count = CODE.num_outputs;
    return AOTI_RUNTIME_SUCCESS;
}

AOTIRuntimeError AOTInductorModelContainerGetNumConstants(Handle, size_t *count) {
    *count = CODE.num_constants;
    return AOTI_RUNTIME_SUCCESS;
}

AOTIRuntimeError AOTInductorModelContainerGetConstantName(Handle, size_t index, const char **name) {
    *name = CODE.constants[index].name;
    return AOTI_RUNTIME_SUCCESS;
}

AOTIRuntimeError AOTInductorModelContainerGetConstantOriginalFQN(Handle, size_t index, const char **name) {
    *name = CODE.constants[index].original;
    return AOTI_RUNTIME_SUCCESS;
}

AOTIRuntimeError AOTInductorModelContainerGetConstantDtype(Handle, size_t index, int32_t *dtype) {
    *dtype = CODE.constants[index].dtype;
    return AOTI_RUNTIME_SUCCESS;
}

AOTIRuntimeError AOTInductorModelContainerUpdateUserManagedConstantBuffer(Handle handle,
                                                                          AOTInductorConstantMapHandle map, bool,
                                                                          bool) {
    return bind(handle, map);
}

/* torch also looks these up, but never calls them; it warns about the first two since 2.14 if they are missing. */
AOTIRuntimeError AOTInductorModelContainerDidCallLoadConstants(Handle, bool *called) {
    *called = false;
    return AOTI_RUNTIME_SUCCESS;
}

AOTIRuntimeError AOTInductorModelContainerCreateWithExternalConstants(Handle *, size_t, const char *, const char *,
                                                                      const AOTInductorConstantMapEntry *, size_t) {
    return AOTI_RUNTIME_FAILURE;
}

AOTIRuntimeError AOTInductorModelContainerUpdateConstantBuffer(Handle, AOTInductorConstantMapHandle, bool, bool) {
    return AOTI_RUNTIME_FAILURE;
}

AOTIRuntimeError AOTInductorModelContainerUpdateInactiveConstantBuffer(Handle, AOTInductorConstantMapHandle) {
    return AOTI_RUNTIME_FAILURE;
}

AOTIRuntimeError AOTInductorModelContainerExtractConstantsMap(Handle, AOTInductorConstantMapHandle, bool) {
    return AOTI_RUNTIME_FAILURE;
}

AOTIRuntimeError AOTInductorModelContainerFreeInactiveConstantBuffer(Handle) { return AOTI_RUNTIME_FAILURE; }

AOTIRuntimeError AOTInductorModelContainerRunConstantFolding(Handle, bool, AOTInductorStreamHandle,
                                                             AOTIProxyExecutorHandle) {
    return AOTI_RUNTIME_FAILURE;
}

AOTIRuntimeError AOTInductorModelContainerSwapConstantBuffer(Handle) { return AOTI_RUNTIME_FAILURE; }

AOTIRuntimeError AOTInductorModelContainerUpdateConstantBufferFromCpu(Handle, AOTInductorConstantMapHandle, bool, bool) {
    return AOTI_RUNTIME_FAILURE;
}

AOTIRuntimeError AOTInductorModelUpdateConstantsFromBlob(Handle, const uint8_t *) { return AOTI_RUNTIME_FAILURE; }

AOTIRuntimeError AOTInductorModelContainerGetConstantsBlobSize(Handle, uint64_t *size) {
    *size = 0;
    return AOTI_RUNTIME_SUCCESS;
}

AOTIRuntimeError AOTInductorGetLastError(const char **message) {
    *message = last_error.c_str();
    return AOTI_RUNTIME_SUCCESS;
}

AOTIRuntimeError AOTInductorModelContainerGetCallSpec(Handle, const char **inputs, const char **outputs) {
    *inputs = *outputs = "";
    return AOTI_RUNTIME_SUCCESS;
}
}
