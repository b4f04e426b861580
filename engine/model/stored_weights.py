"""Form in which a quantized checkpoint's weights are served, chosen before they are loaded.

    as stored     if transformers computes with the stored form on this device
    expanded      if transformers expands the form to 16 or 32 bits per weight, and there is memory for that
    refused       otherwise, with a sentence that states both sizes

transformers' quantizer of each method determines what the machine lacks, and whether the weights are expanded.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers.quantizers.auto import AutoHfQuantizer
from transformers.utils import is_kernels_available
from transformers.utils.quantization_config import GgufConfig

from engine.model import device as devices
from engine.model.errors import ModelError
from engine.model.gguf_file import gguf_weights
from engine.model.loaded import WEIGHTS, StoredWeights
from engine.model.model_files import SMALLER, ModelFiles, auto_class
from engine.model.packed_linears import packed_bytes
from engine.options.refusal import sentence

# transformers warns if it receives its own settings of a checkpoint
warnings.filterwarnings("ignore", message="You passed `quantization_config`")
FIELDS = ("quantization_config", "compression_config")  # keys in config.json
MODELOPT_FILE = "hf_quant_config.json"  # written by NVIDIA's ModelOpt


def stored_weights(
    files: ModelFiles, config: Any, load_dtype: str | torch.dtype, dtype: str, device: torch.device
) -> StoredWeights | None:
    """Return the stored form of a model's weights; None: they are not quantized.

    `load_dtype`: the torch dtype to load, or "auto". `dtype`: the dtype as the user requested it.

    Raises:
        ModelError: transformers cannot read them here, or there is not enough memory for the expanded weights.
    """
    quantization = _quantization(files, config)
    if quantization is None and files.gguf is None:
        return None
    if files.gguf is None:
        form, stored = str((quantization or {}).get("quant_method") or "an unnamed form"), files.weight_bytes()
    else:
        found = gguf_weights(Path(files.source) / files.gguf)
        form, stored = f"GGUF {found.form}", found.num_bytes
    module = _meta_model(config)
    num_params = sum(parameter.numel() for parameter in module.parameters())
    # expanded weights are rarely exact in bfloat16, so "auto" loads them as float32
    taken = _taken(module, config, load_dtype, "float32" if dtype == "auto" else dtype, device)
    has = sentence("stored.form", name=files.name, form=form, size=f" ({devices.size(stored)})" if stored else "")
    try:
        settings = GgufConfig(dequantize=True) if quantization is None else _settings(quantization, device)
    except Exception as error:
        reason = " ".join(str(error).split(". ")[0].split()).removesuffix(".")[:200]
        raise ModelError(sentence("stored.unread", has=has, reason=reason, size=devices.size(taken))) from error
    if quantization is not None and not getattr(settings, "dequantize", False):
        return StoredWeights(form, stored, stored or taken, settings, num_params)
    kind = str(_kind(config, load_dtype)).removeprefix("torch.")
    memory = devices.ALLOCATOR.memory(device)
    if taken > memory.free:
        bytes_of = {"taken": taken, "free": memory.free, "total": memory.total}
        sizes = {name: devices.size(num_bytes) for name, num_bytes in bytes_of.items()}
        raise ModelError(sentence("stored.room", has=has, device=device.type, kind=kind, **sizes, instead=SMALLER))
    return StoredWeights(form, stored, taken, settings, num_params, kind)


def loaded_bytes(config: Any, load_dtype: str | torch.dtype, dtype: str, device: torch.device) -> int:
    """Return the size in bytes of a configuration's unquantized weights; for the arguments see `stored_weights`."""
    return _taken(_meta_model(config), config, load_dtype, dtype, device)


def _meta_model(config: Any) -> Any:
    """Return the model on the meta device, with shapes but without data."""
    with torch.device("meta"):
        return auto_class(config).from_config(config)


def _taken(module: Any, config: Any, load_dtype: str | torch.dtype, dtype: str, device: torch.device) -> int:
    kind = _kind(config, load_dtype)
    taken = sum(parameter.numel() for parameter in module.parameters()) * kind.itemsize
    if device.type == "cpu" and kind == torch.float32:
        stored_dtype = torch.bfloat16 if config.dtype == torch.bfloat16 else torch.float32
        taken += packed_bytes(module, WEIGHTS.get(dtype, stored_dtype if dtype == "auto" else torch.float32))
    return int(taken + sum(b.nbytes for b in module.buffers()))


def _kind(config: Any, load_dtype: str | torch.dtype) -> torch.dtype:
    return load_dtype if isinstance(load_dtype, torch.dtype) else (config.dtype or torch.float32)


def _quantization(files: ModelFiles, config: Any) -> Mapping[str, Any] | None:
    values = [getattr(source, name, None) for source in (config, config.get_text_config()) for name in FIELDS]
    found = next((value for value in values if value), None)
    if found is not None:
        return found if isinstance(found, Mapping) else dict(found.to_dict())
    path = files.beside(MODELOPT_FILE)
    return {"quant_method": "modelopt", **json.loads(path.read_text(encoding="utf-8"))} if path else None


def _settings(quantization: Mapping[str, Any], device: torch.device) -> Any:
    """Return transformers' settings to read this form with; their `dequantize` is set if the weights are expanded.

    Raises:
        Exception: an error of transformers, whose message states what is missing.
    """
    if not AutoHfQuantizer.supports_quant_method(dict(quantization)):
        raise ValueError("transformers has no reader of this form")
    quantizer = AutoHfQuantizer.from_config(dict(quantization), pre_quantized=True)
    settings = quantizer.quantization_config
    if hasattr(settings, "use_optimized_inference"):  # by default weights are expanded silently in the first forward
        settings.use_optimized_inference = device.type == "cuda"
        quantizer.validate_environment(device_map=None)
        settings.dequantize = not quantizer.use_fp8_kernel
    else:
        # these methods' kernels need a GPU and the package `kernels`
        if hasattr(settings, "dequantize") and (device.type == "cpu" or not is_kernels_available()):
            settings.dequantize = True
        quantizer.validate_environment(device_map={"": device})
    return settings
