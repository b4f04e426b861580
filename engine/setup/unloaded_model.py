"""Architecture of a model that is not loaded: its configuration, and parameters counted on the meta device."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from msgspec.structs import replace
from torch.nn.modules.module import register_module_module_registration_hook
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.pytorch_utils import Conv1D
from transformers.utils import logging

from engine.accounting.architecture import MAX_LAYERS, kv_shapes, read_architecture
from engine.accounting.checkpoint import Weight, read_storage
from engine.accounting.impossible import ImpossibleInput, impossible
from engine.accounting.kv_shape import Architecture
from engine.accounting.weights import WeightStore
from engine.model.errors import ModelError
from engine.model.facts import count_parameters
from engine.model.gguf_file import gguf_weights, is_gguf
from engine.model.light_transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForSeq2SeqLM,
    AutoModelForSpeechSeq2Seq,
)
from engine.model.model_files import model_files

MAX_BYTES = 256 * 1024  # maximum size of a config.json
MAX_DEPTH = 8  # maximum nesting depth of objects
MAX_MODULES = 100_000  # the largest known models have about 10,000
MAX_EXPERTS = 65_536  # maximum number of experts of a layer; Doge has 16,384
# words in the names of counts that determine the number of modules or list entries
COUNT_WORDS = {"layer", "layers", "depth", "depths", "block", "blocks", "expert", "experts", "codebooks"}
MODELOPT_FILE = "hf_quant_config.json"  # quantization config of NVIDIA's ModelOpt
IGNORED = {
    "auto_map", "quantization_config", "torch_dtype", "dtype", "transformers_version",
    "backbone", "use_timm_backbone", "use_pretrained_backbone",  # would download another model's weights
}  # fmt: skip
DECODERS = (AutoModelForCausalLM, AutoModelForImageTextToText)
WITH_ENCODER = (AutoModelForSeq2SeqLM, AutoModelForSpeechSeq2Seq)


def architecture_of(name_or_path: str) -> Architecture:
    """Return the architecture of a config.json, a folder with one, a GGUF file or a hub name, without reading weights.

    Raises:
        ImpossibleInput: there is no configuration, or the model is not supported.
    """
    if is_gguf(name_or_path):
        return _gguf_architecture(name_or_path)
    path = Path(name_or_path).expanduser()
    file = path / "config.json" if path.is_dir() else path
    if file.is_file():
        size = file.stat().st_size
        if size > MAX_BYTES:
            raise impossible("config_size", most=MAX_BYTES, size=size)
        name = path.name if path.is_dir() else path.parent.name or path.stem
        modelopt = file.with_name(MODELOPT_FILE)
        return architecture_from(file.read_bytes(), name, modelopt.read_bytes() if modelopt.is_file() else b"")
    try:
        found, _ = transformers.PreTrainedConfig.get_config_dict(name_or_path)
    except (OSError, ValueError) as error:
        raise impossible("no_model", name=name_or_path[:80], reason=_reason(error)) from error
    return architecture_of_config(found, name_or_path)


def _gguf_architecture(name: str) -> Architecture:
    try:
        config, found = model_files(name).config(), gguf_weights(name)
    except ModelError as error:
        raise impossible("no_model", name=name[:80], reason=error) from error
    each = found.num_bytes / found.num_weights
    settings = json.loads(config.to_json_string(use_diff=False))
    return replace(architecture_of_config(settings, Path(name).name), shipped=WeightStore(each=each, plain=each))


def architecture_from(text: bytes, name: str, quantized: bytes = b"") -> Architecture:
    """Return the architecture of a config.json's content. `quantized`: content of a separate quantization config.

    Raises:
        ImpossibleInput: the content is too large or not JSON, or the model is not supported.
    """
    if (length := max(len(text), len(quantized))) > MAX_BYTES:
        raise impossible("config_size", most=MAX_BYTES, size=length)
    try:
        settings, quantization = json.loads(text), json.loads(quantized or b"{}")
    except (ValueError, RecursionError) as error:
        raise impossible("no_json", reason=_reason(error)) from error
    if not isinstance(settings, dict) or not isinstance(quantization, dict):
        raise impossible("no_object")
    if quantization:
        settings.setdefault("quantization_config", {"quant_method": "modelopt", **quantization})
    own_name = settings.get("_name_or_path")
    if isinstance(own_name, str) and own_name:
        name = own_name
    return architecture_of_config(settings, name or "config.json")


def architecture_of_config(settings: Mapping[str, Any], name: str) -> Architecture:
    """Return the architecture of a configuration, with its family's defaults for missing fields.

    Raises:
        ImpossibleInput: transformers does not know the family, or cannot construct the model.
    """
    settings = _with_known_family(settings)
    config = _config(settings)
    text = config.get_text_config(decoder=True)
    inner = settings.get("text_config")
    values = inner if isinstance(inner, Mapping) else settings
    computed = _computed_fields(text)
    merged = {**text.to_dict(), **computed, **{key: value for key, value in values.items() if value is not None}}
    kv_shapes(merged)  # checks that counts are within bounds before the model is constructed
    module = _meta_model(config)
    num_params, num_active = count_parameters(module, text)
    storage = read_storage(settings)
    return replace(
        read_architecture(merged, name[:120], num_params, num_active),
        shipped=storage.weights(num_params, _matrices(module)),
        element=storage.element,
        unread=storage.unread,
    )


def _with_known_family(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the configuration; an unknown `model_type` is replaced by the family of a class in `architectures`."""
    found, family = dict(settings), settings.get("model_type")
    classes = settings.get("architectures")
    if isinstance(family, str) and family not in transformers.CONFIG_MAPPING and isinstance(classes, list):
        known = {name: one for one, name in reversed(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items())}
        found["model_type"] = next((known[one] for one in classes if isinstance(one, str) and one in known), family)
    text = settings.get("text_config")
    return {**found, "text_config": _with_known_family(text)} if isinstance(text, Mapping) else found


def _matrices(module: Any) -> Iterator[Weight]:
    """Yield the weights of linear layers and experts once each, except for those tied to the embedding."""
    seen = {id(one) for one in (module.get_input_embeddings(),) if one is not None for one in one.parameters()}
    head = module.get_output_embeddings()
    for name, owner in module.named_modules():
        for weight, parameter in owner.named_parameters(recurse=False):
            is_linear = isinstance(owner, torch.nn.Linear | Conv1D) and parameter.ndim == 2
            is_expert = parameter.ndim == 3 and not isinstance(owner, torch.nn.modules.conv._ConvNd)
            if (is_linear or is_expert) and id(parameter) not in seen:
                seen.add(id(parameter))
                full = name if is_linear else f"{name}.{weight}"
                yield Weight(full, parameter.numel(), is_expert, owner is head)


def _config(settings: Mapping[str, Any]) -> Any:
    """Return transformers' configuration object."""
    family = settings.get("model_type")
    if not isinstance(family, str) or not family:
        raise impossible("no_family")
    if family not in transformers.CONFIG_MAPPING:
        raise impossible("family", family=family[:40], version=transformers.__version__)
    if not any(transformers.CONFIG_MAPPING[family] in kind._model_mapping for kind in (*DECODERS, *WITH_ENCODER)):
        raise impossible("not_built", reason=f"{family[:40]} generates no text")
    plain = _plain({key: value for key, value in settings.items() if key != "model_type"})
    try:
        return AutoConfig.for_model(family, **plain)
    except Exception as error:  # a family's code may raise anything for unusual settings
        raise impossible("not_built", reason=_reason(error)) from error


def _plain(value: Any, depth: int = 0) -> Any:
    """Return the settings without those that name code, files or other models to download.

    Counts are checked here, before a family's code creates that many list entries and modules.
    """
    if depth > MAX_DEPTH:
        raise impossible("no_json", reason="it is nested too deeply")
    if isinstance(value, Mapping):
        for key, one in value.items():
            words = key.split("_")
            if words[-1] in COUNT_WORDS or (words[0] in ("n", "num") and COUNT_WORDS.intersection(words)):
                _check_counts(key, one)
        return {
            key: _plain(one, depth + 1)
            for key, one in value.items()
            if key not in IGNORED and not key.startswith("_") and not key.startswith("attn_implementation")
        }
    return [_plain(one, depth + 1) for one in value] if isinstance(value, list) else value


def _check_counts(name: str, value: Any) -> None:
    limit = MAX_EXPERTS if "expert" in name else MAX_LAYERS
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, int | float) and one > limit:
            raise impossible("bad_field", field=name[:40], value=str(one)[:40], most=limit)


def _computed_fields(text: Any) -> dict[str, Any]:
    """Return fields that some families compute and do not store in their settings."""
    kinds = getattr(text, "layer_types", None) or getattr(text, "layers_block_type", None)
    found: dict[str, Any] = {"model_type": text.model_type}
    return found if kinds is None else {**found, "layer_types": list(kinds)}


def _meta_model(config: Any) -> Any:
    """Construct a model on the meta device."""
    logging.set_verbosity_error()
    for kind in WITH_ENCODER if config.is_encoder_decoder else DECODERS:
        if type(config) in kind._model_mapping:
            try:
                with torch.device("meta"), _few_modules():
                    return kind.from_config(config)
            except ImpossibleInput:
                raise
            except Exception as error:
                raise impossible("not_built", reason=_reason(error)) from error
    raise impossible("not_built", reason=f"{config.model_type} generates no text")


@contextmanager
def _few_modules() -> Iterator[None]:
    """Limit the number of modules that this thread creates, because each takes time, even without weights."""
    thread, num_modules = threading.get_ident(), 0

    def count(*_: object) -> None:
        nonlocal num_modules
        if threading.get_ident() != thread:
            return
        num_modules += 1
        if num_modules > MAX_MODULES:
            raise impossible("too_many_modules", most=MAX_MODULES)

    handle = register_module_module_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


def _reason(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:160].rstrip(".")
