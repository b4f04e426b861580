"""Opens a model from a folder, the Hugging Face hub, or memory, and refuses unsupported models."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace
from transformers.utils import logging

from engine.model import attention
from engine.model.cpu_layout import store_linear_weights_transposed
from engine.model.cpu_norms import replace_rms_norms
from engine.model.device import out_of_memory
from engine.model.errors import ModelError
from engine.model.facts import has_states, layer_shapes, model_facts, probe, probe_states, refuse_unsupported
from engine.model.freed_memory import trim_memory
from engine.model.latents import find_latents, install_latents
from engine.model.light_transformers import AutoTokenizer, without_compiler
from engine.model.loaded import DTYPES, ROUNDED_TO, WEIGHTS, LoadedModel, Opened
from engine.model.loading_stages import LoadingStage
from engine.model.model_files import SMALLER, auto_class, model_files
from engine.model.naming import model_name
from engine.model.native import linear_kernel
from engine.model.packed_linears import FLOATS, PackedLinear, bytes_per_weight, pack_linears, plain_products
from engine.model.plain_check import plain_logits, with_rounding
from engine.model.served_check import check_served
from engine.model.shipped import BUNDLED, measured_heads, shipped_model
from engine.model.state_layers import install
from engine.model.stored_class import stored_class
from engine.model.stored_weights import stored_weights
from engine.model.text_part import drop_unused_parts
from engine.model.tokenizer import Tokenizer
from engine.options.refusal import sentence
from engine.trace.records import TokenizerFacts


def load_model(
    name_or_path: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
    revision: str | None = None,
    telling: Callable[[LoadingStage], object] = lambda stage: None,
) -> LoadedModel:
    """Open a causal language model.

    `name_or_path`: the name of a shipped model (`shipped.SHIPPED`; None is "bundled"), a folder, a GGUF file, or a hub
    name.
    `dtype`: "auto" is float32 on the CPU, with weights in bfloat16 if they are exact in it, and the checkpoint's dtype
    on a GPU. One of `WEIGHTS` computes in float32 on the CPU with rounded weights. `device`: "auto" is a GPU if there
    is one. `telling` is called with each of `LOADING_STAGES` as it begins. Only safetensors and GGUF weights are
    read, and no code of the model's repository is run.

    Raises:
        ModelError: there is no such model or device, the model is not supported, or the dtype is unknown.
    """
    target = resolve_device(device)
    load_dtype: str | torch.dtype = resolve_dtype(dtype, target)
    name = name_or_path or BUNDLED
    shipped = shipped_model(name)
    files = model_files(name, revision)
    config = files.config()
    if files.gguf is not None and load_dtype == "auto":
        load_dtype = config.dtype
    stored = stored_weights(files, config, load_dtype, dtype, target)
    telling("vocabulary")
    tokenizer_files = files._replace(source=str(shipped.tokenizer_folder)) if shipped else files
    tokenizer = tokenizer_files.read("tokenizer", AutoTokenizer.from_pretrained)
    weights: dict[str, Any] = {"config": config, "dtype": load_dtype, "use_safetensors": True}
    if stored is not None:
        weights["quantization_config"] = stored.settings
        if not stored.expanded_to and target.type != "cpu":  # the kernels' weight layout depends on the device
            weights["device_map"] = {"": target}
    telling("weights")
    is_packed = stored is None and target.type == "cpu" and load_dtype == torch.float32 and linear_kernel() is not None
    with without_compiler():
        with _without_progress_bar() if shipped else nullcontext():  # a shipped model loads in milliseconds
            model_class = stored_class(files, config) if is_packed else auto_class(config)
            module = files.read("weights", model_class.from_pretrained, **weights)
        if stored is not None and stored.expanded_to and isinstance(load_dtype, torch.dtype):
            for parameter in module.parameters():  # older releases of transformers always expand mxfp4 to bfloat16
                parameter.data = parameter.data.to(load_dtype)
        telling("check")
        weight_dtype = torch.float32 if dtype == "float32" else WEIGHTS.get(dtype)
        try:
            public_name = name if shipped else model_name(name)
            dtypes = FLOATS if is_packed else FLOATS[:1]
            loaded = from_module(module.to(target), tokenizer, public_name, weight_dtype, dtypes)
        except Exception as error:
            if shortage := out_of_memory(error, target, sentence("memory.model", name=name), SMALLER):
                raise shortage from error
            raise
    loaded.opened, loaded.stored = Opened(name, dtype, revision), stored
    if stored is not None and not stored.expanded_to:
        each = stored.taken_bytes / stored.num_params
        loaded.facts = replace(loaded.facts, num_params=stored.num_params, bytes_per_weight=each)
    trim_memory()  # packing and comparing have freed memory
    if files.is_local and files.gguf is None:
        loaded.facts = replace(loaded.facts, heads=measured_heads(Path(files.source)))
    return loaded


@contextmanager
def _without_progress_bar() -> Iterator[None]:
    was_enabled = logging.is_progress_bar_enabled()
    if was_enabled:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def from_module(
    module: Any,
    tokenizer: Any = None,
    name: str = "in-memory",
    weights: torch.dtype | None = None,
    dtypes: tuple[torch.dtype, ...] = FLOATS[:1],
) -> LoadedModel:
    """Prepare a transformers model in memory. It is modified in place: attention, frozen weights, CPU layout.

    `tokenizer`: a transformers tokenizer, a `Tokenizer`, or None. `weights`: dtype that linear layers are rounded to;
    None: they are not rounded. `dtypes`: possible dtypes of the matrices; with several the model computes in float32.

    Raises:
        ModelError: the model is not supported, its paged results differ from transformers', or its layers cannot be
            rounded.
    """
    refuse_unsupported(type(module), module.config)
    attention.register()
    module.eval().requires_grad_(False)
    device = module.device
    dtype = torch.float32 if len(dtypes) > 1 else module.dtype
    pack_linears(module, weights, dtypes)
    packed = {part.panels.dtype for part in module.modules() if isinstance(part, PackedLinear)}
    if weights in ROUNDED_TO and weights not in packed:
        raise ModelError(sentence("model.rounded", name=name, kept=ROUNDED_TO[weights]))
    began = time.perf_counter()
    with plain_products(module):
        with drop_unused_parts(module) as dropped:
            plain = plain_logits(module)
        if has_states(module.config) and dtype == torch.float32:
            plain = with_rounding(module, plain)
        seconds = time.perf_counter() - began
        module.set_attn_implementation(attention.ATTENTION_NAME)
        context = probe(module, device)
        states = probe_states(module, device)
    if states is not None:
        install(module, states)
    latents = find_latents(module, context)
    each, rounded_to = bytes_per_weight(module, dtype), ROUNDED_TO.get(weights) if weights else None
    facts = replace(
        model_facts(module, name, dtype, context, states, latents), bytes_per_weight=each, rounded_to=rounded_to
    )
    store_linear_weights_transposed(module)  # of layers that are not packed
    replace_rms_norms(module)
    if latents is not None:
        install_latents(latents, dtype, device)
    if tokenizer is not None and not isinstance(tokenizer, Tokenizer):
        tokenizer = Tokenizer(tokenizer, module.generation_config.eos_token_id)
    model = LoadedModel(
        module=module,
        tokenizer=tokenizer,
        facts=facts,
        tokenizer_facts=_tokenizer_facts(module, tokenizer, name),
        layer_shapes=layer_shapes(context),
        device=device,
        dtype=dtype,
        plain=plain,
        states=states,
        latents=latents,
        dropped=dropped,
    )
    began = time.perf_counter()
    _check(model)
    model.check_seconds = seconds + time.perf_counter() - began
    return model


def _check(model: LoadedModel) -> None:
    """Compare the served model with its plain forward pass. A model with states that differs is compared again with
    its states advanced one token at a time, and then served that way.

    Raises:
        ModelError: the served results differ.
    """
    try:
        check_served(model)
    except ModelError:
        if model.states is None:
            raise
        model.states.one_by_one = True
        check_served(model)


def resolve_device(device: str) -> torch.device:
    """Return the device of that name.

    Raises:
        ModelError: it is unknown, or not on this machine.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError:
        raise ModelError(sentence("device.unknown", device=device)) from None
    if resolved.type not in ("cpu", "cuda"):
        raise ModelError(sentence("device.unsupported", device=device))
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(sentence("device.no_gpu", device=device, version=torch.__version__))
    if resolved.type == "cuda" and (resolved.index or 0) >= torch.cuda.device_count():
        raise ModelError(sentence("device.gpus", device=device, number=torch.cuda.device_count()))
    return resolved


def resolve_dtype(dtype: str, device: torch.device) -> torch.dtype | str:
    """Return the dtype of that name; on a GPU "auto" is returned unchanged and means the checkpoint's dtype.

    Raises:
        ModelError: it is unknown, or one of `WEIGHTS` on a GPU.
    """
    if dtype in WEIGHTS and device.type != "cpu":
        raise ModelError(sentence("dtype.cpu", dtype=dtype, dtypes=", ".join(DTYPES)))
    if dtype in WEIGHTS:
        return torch.float32
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else "auto"
    if dtype not in DTYPES:
        raise ModelError(sentence("dtype.unknown", dtype=dtype, dtypes=", ".join((*DTYPES, *WEIGHTS))))
    return DTYPES[dtype]


def _tokenizer_facts(module: Any, tokenizer: Tokenizer | None, name: str) -> TokenizerFacts:
    if tokenizer is not None:
        return TokenizerFacts(name=name, vocab_size=tokenizer.vocab_size, eos_token_ids=tokenizer.eos_token_ids)
    eos = module.generation_config.eos_token_id
    ids = [] if eos is None else [eos] if isinstance(eos, int) else list(eos)
    return TokenizerFacts(name="none", vocab_size=module.config.get_text_config().vocab_size, eos_token_ids=ids)
