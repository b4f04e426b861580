"""Form in which a checkpoint's weights are served, decided before they are loaded.

    as they are   transformers computes with the stored form on this device
    expanded      transformers reads the form into 16 or 32 bits a weight, and there is memory for that
    not           one sentence with both sizes

transformers itself is asked: its reader of each method says what the machine lacks, and whether it only expands.
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

# transformers warns where its own settings of a checkpoint are handed back to it
warnings.filterwarnings("ignore", message="You passed `quantization_config`")
FIELDS = ("quantization_config", "compression_config")  # of config.json
APART = "hf_quant_config.json"  # of NVIDIA's ModelOpt


def stored_weights(
    files: ModelFiles, config: Any, wanted: str | torch.dtype, dtype: str, device: torch.device
) -> StoredWeights | None:
    """Return the stored form of a model's weights; None: plain numbers.

    `wanted`, `dtype`: the dtype to load, as a torch dtype or "auto", and as it was asked for.

    Raises:
        ModelError: transformers cannot read them here, or there is no memory for what it expands them to.
    """
    given = _quantization(files, config)
    if given is None and files.gguf is None:
        return None
    if files.gguf is None:
        form, stored = str((given or {}).get("quant_method") or "an unnamed form"), files.weight_bytes()
    else:
        found = gguf_weights(Path(files.source) / files.gguf)
        form, stored = f"GGUF {found.form}", found.num_bytes
    module = _without_content(config)
    num_params = sum(parameter.numel() for parameter in module.parameters())
    # what is expanded is seldom a number of bfloat16, in which "auto" would keep it
    taken = _taken(module, config, wanted, "float32" if dtype == "auto" else dtype, device)
    has = sentence("stored.form", name=files.name, form=form, size=f" ({devices.size(stored)})" if stored else "")
    try:
        settings = GgufConfig(dequantize=True) if given is None else _settings(given, device)
    except Exception as error:
        reason = " ".join(str(error).split(". ")[0].split()).removesuffix(".")[:200]
        raise ModelError(sentence("stored.unread", has=has, reason=reason, size=devices.size(taken))) from error
    if given is not None and not getattr(settings, "dequantize", False):
        return StoredWeights(form, stored, stored or taken, settings, num_params)
    kind = str(_kind(config, wanted)).removeprefix("torch.")
    memory = devices.ALLOCATOR.memory(device)
    if taken > memory.free:
        bytes_of = {"taken": taken, "free": memory.free, "total": memory.total}
        sizes = {name: devices.size(num_bytes) for name, num_bytes in bytes_of.items()}
        raise ModelError(sentence("stored.room", has=has, device=device.type, kind=kind, **sizes, instead=SMALLER))
    return StoredWeights(form, stored, taken, settings, num_params, kind)


def loaded_bytes(config: Any, wanted: str | torch.dtype, dtype: str, device: torch.device) -> int:
    """Bytes that the weights of a configuration take as plain numbers; arguments as of `stored_weights`."""
    return _taken(_without_content(config), config, wanted, dtype, device)


def _without_content(config: Any) -> Any:
    """Return the model with shapes and no numbers."""
    with torch.device("meta"):
        return auto_class(config).from_config(config)


def _taken(module: Any, config: Any, wanted: str | torch.dtype, dtype: str, device: torch.device) -> int:
    kind = _kind(config, wanted)
    taken = sum(parameter.numel() for parameter in module.parameters()) * kind.itemsize
    if device.type == "cpu" and kind == torch.float32:
        of_checkpoint = torch.bfloat16 if config.dtype == torch.bfloat16 else torch.float32
        taken += packed_bytes(module, WEIGHTS.get(dtype, of_checkpoint if dtype == "auto" else torch.float32))
    return int(taken + sum(b.nbytes for b in module.buffers()))


def _kind(config: Any, wanted: str | torch.dtype) -> torch.dtype:
    return wanted if isinstance(wanted, torch.dtype) else (config.dtype or torch.float32)


def _quantization(files: ModelFiles, config: Any) -> Mapping[str, Any] | None:
    found = [getattr(of, name, None) for of in (config, config.get_text_config()) for name in FIELDS]
    given = next((one for one in found if one), None)
    if given is not None:
        return given if isinstance(given, Mapping) else dict(given.to_dict())
    apart = files.beside(APART)
    return {"quant_method": "modelopt", **json.loads(apart.read_text(encoding="utf-8"))} if apart else None


def _settings(given: Mapping[str, Any], device: torch.device) -> Any:
    """Return transformers' settings to read this form with; `dequantize` of them says that it is expanded.

    Raises:
        Exception: of transformers, which says what is missing.
    """
    if not AutoHfQuantizer.supports_quant_method(dict(given)):
        raise ValueError("transformers has no reader of this form")
    quantizer = AutoHfQuantizer.from_config(dict(given), pre_quantized=True)
    settings = quantizer.quantization_config
    if hasattr(settings, "use_optimized_inference"):  # else it is expanded silently in the first forward pass
        settings.use_optimized_inference = device.type == "cuda"
        quantizer.validate_environment(device_map=None)
        settings.dequantize = not quantizer.use_fp8_kernel
    else:
        # their kernels are for GPUs, and come with the package of that name
        if hasattr(settings, "dequantize") and (device.type == "cpu" or not is_kernels_available()):
            settings.dequantize = True
        quantizer.validate_environment(device_map={"": device})
    return settings
