"""Storage of the weights, cache and states of a checkpoint, from its config.json.

A field that changes a size but is not supported is listed in `Storage.unread` and ignored.

    awq, gptq            `bits` per weight; per group a 16-bit scale and a zero point of `bits`
    fp8                  1 byte per weight; a float32 scale per block of `weight_block_size`
    mxfp4                only experts: 4 bits per weight; 8 bits per 32 weights
    bitsandbytes         8 bits per weight; or 4 bits and a float32 per 64 weights; or with double quantization 4 bits,
                         8 bits per 64 weights and a float32 per 64 · 256
    modelopt             FP8: 8 bits per weight; NVFP4: 4 bits per weight, and 8 bits per 16 weights
    compressed-tensors   by its `config_groups`

Norms, biases, embeddings and routers are never quantized. The output projection is quantized only if the method
quantizes every linear layer or the file says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from engine.accounting.module_names import NamePatterns
from engine.accounting.weights import KEPT_BYTES, WeightStore

Config = Mapping[str, Any]
DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
STATE_DTYPES = ("mamba_ssm_dtype", "mamba_ssm_cache_dtype")
EXCEPTIONS = ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "llm_int8_skip_modules")
BLOCKS = {"FP8": (8, 0.0), "NVFP4": (4, 1 / 16)}  # modelopt: bits per weight, bytes of scales per weight


class Weight(NamedTuple):
    """Quantizable matrix of a model."""

    name: str
    size: int
    is_expert: bool = False  # one tensor of all experts of a layer
    is_head: bool = False


class Form(NamedTuple):
    """Format: bytes per weight with and without scales, and the weights that it applies to."""

    each: float
    plain: float
    targets: NamePatterns | None = None  # None: all weights


class Storage(NamedTuple):
    """Storage of a checkpoint."""

    forms: tuple[Form, ...] = ()
    excepted: NamePatterns = NamePatterns(())
    experts_only: bool = False
    has_head: bool = False  # whether the output projection is quantized
    plain_bytes: float = KEPT_BYTES  # per weight, without quantization
    element: float | None = None  # bytes per cached number; None: not given
    unread: tuple[str, ...] = ()  # fields that change a size but are not supported

    def weights(self, num_params: int, matrices: Iterable[Weight]) -> WeightStore:
        """Return the weight storage of a model with `num_params` parameters and these quantizable matrices."""
        if not self.forms:
            return WeightStore(each=float(self.plain_bytes))
        count, total, plain = 0, 0.0, 0.0
        for one in matrices:
            if (self.experts_only and not one.is_expert) or (one.is_head and not self.has_head):
                continue
            form = next((form for form in self.forms if form.targets is None or form.targets.match(one.name)), None)
            if form is None or self.excepted.match(one.name):
                continue
            count, total, plain = count + one.size, total + form.each * one.size, plain + form.plain * one.size
        if not count:
            return WeightStore(each=float(self.plain_bytes))
        return WeightStore(each=total / count, unquantized=num_params - count, plain=plain / count)


def read_storage(config: Config) -> Storage:
    """Return the storage of a checkpoint. `config`: content of config.json."""
    text = config.get("text_config")
    own: Config = text if isinstance(text, Mapping) else {}
    unread: list[str] = []
    dtype_name: object = next(
        (one[name] for one in (own, config) for name in ("dtype", "torch_dtype") if one.get(name)), ""
    )
    plain = DTYPE_BYTES.get(str(dtype_name).removeprefix("torch."))
    if dtype_name and plain is None and dtype_name != "auto":
        unread.append(f"dtype = {str(dtype_name)[:40]!r}")
    if (dtype := _state_dtype({**config, **own}))[1] not in (None, "auto", *DTYPE_BYTES):
        unread.append(f"{dtype[0]} = {str(dtype[1])[:40]!r}")
    found = Storage(plain_bytes=plain or KEPT_BYTES)
    for section in (own, config):
        for name in ("quantization_config", "compression_config"):
            if isinstance(quantization := section.get(name), Mapping):
                found = _quantized(quantization, name, found, unread)
                return found._replace(unread=tuple(unread))
    return found._replace(unread=tuple(unread))


def state_is_wide(config: Config) -> bool:
    """Return whether recurrent states are stored in float32. `config`: of the text model."""
    return _state_dtype(config)[1] == "float32"


def _state_dtype(config: Config) -> tuple[str, object]:
    return next(((name, config[name]) for name in STATE_DTYPES if config.get(name) is not None), ("", None))


def _quantized(quantization: Config, field: str, found: Storage, unread: list[str]) -> Storage:
    method = str(quantization.get("quant_method", "")).lower() or (
        "compressed-tensors" if "config_groups" in quantization else ""
    )
    inner = quantization.get("quantization")
    if isinstance(inner, Mapping):  # older modelopt files
        quantization = {**quantization, **inner}
    try:
        forms = tuple(_forms(method, quantization))
    except (TypeError, ValueError):
        unread.append(f"{field} of quant_method {method[:40]!r}")
        return found
    excepted = NamePatterns(
        one for name in EXCEPTIONS if isinstance(quantization.get(name), list) for one in quantization[name]
    )
    unread += [f"{field}, {one[:60]!r}" for one in (*excepted.unread, *_unread_targets(forms))]
    if quantization.get("dynamic"):
        unread.append(f"{field}.dynamic")
    element = _cache_bytes(quantization)
    if element == 0:
        unread.append(f"{field}.kv_cache_scheme")
    has_head = method == "compressed-tensors" or quantization.get("lm_head") is True
    experts_only = method == "mxfp4"
    return found._replace(
        forms=forms, excepted=excepted, experts_only=experts_only, has_head=has_head, element=element or None
    )


def _forms(method: str, quantization: Config) -> Iterable[Form]:
    """Return the formats of a quantization config.

    Raises:
        TypeError, ValueError: the method or one of its numbers is not supported.
    """
    if method in ("awq", "gptq", "auto-round", "autoround", "intel/auto-round"):
        bits, group = (
            _bits(quantization.get("bits", quantization.get("w_bit"))),
            quantization.get("group_size", quantization.get("q_group_size")),
        )
        zero = bits / 8 if method != "awq" or quantization.get("zero_point", True) else 0
        return [_grouped(bits, group, 2 + zero)]
    if method in ("fp8", "fbgemm_fp8"):
        return [_blocks(8, quantization.get("weight_block_size"))]
    if method == "mxfp4":
        return [_grouped(4, 32, 1)]
    if method == "bitsandbytes":
        if quantization.get("load_in_4bit") or quantization.get("_load_in_4bit"):
            twice = quantization.get("bnb_4bit_use_double_quant")
            return [Form(0.5 + (1 / 64 + 4 / (64 * 256) if twice else 4 / 64), 0.5)]
        if quantization.get("load_in_8bit") or quantization.get("_load_in_8bit"):
            return [Form(1, 1)]
    if method.startswith("modelopt") and (algorithm := quantization.get("quant_algo")) in BLOCKS:
        bits, scales = BLOCKS[algorithm]
        return [Form(bits / 8 + scales, bits / 8)]
    if method == "compressed-tensors":
        if quantization.get("format") == "dense":
            return []
        groups = list(_mapping(quantization.get("config_groups")).values())
        return [_group_format(one) for one in groups if _mapping(one).get("weights") is not None]
    raise ValueError(method)


def _group_format(group: Config) -> Form:
    """Return the format of a compressed-tensors group. Its targets are names of classes or modules."""
    weights, targets = _mapping(group["weights"]), list(group.get("targets") or ["Linear"])
    bits, strategy = _bits(weights.get("num_bits")), weights.get("strategy")
    if strategy == "block":
        form = _blocks(bits, weights.get("block_structure"))
    elif strategy in ("group", "tensor_group"):
        small = weights.get("type") == "float" and bits == 4  # mxfp4 and nvfp4 have 8-bit scales
        zero = 0 if weights.get("symmetric", True) else bits / 8
        form = _grouped(bits, weights.get("group_size"), (1 if small else 2) + zero)
    elif strategy in ("tensor", "channel", "token", None):
        form = Form(bits / 8, bits / 8)
    else:
        raise ValueError(strategy)
    return form if "Linear" in targets else form._replace(targets=NamePatterns(targets))


def _unread_targets(forms: Iterable[Form]) -> list[str]:
    return [one for form in forms if form.targets for one in form.targets.unread]


def _grouped(bits: int, group: object, scale_bytes: float) -> Form:
    """Return the format of groups with `scale_bytes` each. A group of -1 is a row, whose scale is not counted."""
    if group in (-1, None):
        return Form(bits / 8, bits / 8)
    return Form(bits / 8 + scale_bytes / _integer(group, 1 << 20), bits / 8)


def _blocks(bits: int, shape: object) -> Form:
    if shape is None:
        return Form(bits / 8, bits / 8)
    if not isinstance(shape, list | tuple) or len(shape) != 2:
        raise ValueError(shape)
    return Form(bits / 8 + 4 / math.prod(_integer(one, 1 << 20) for one in shape), bits / 8)


def _mapping(value: object) -> Config:
    if not isinstance(value, Mapping):
        raise ValueError(value)
    return value


def _bits(value: object) -> int:
    return _integer(value, 16)


def _integer(value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise ValueError(value)
    return value


def _cache_bytes(quantization: Config) -> float | None:
    """Return the bytes per cached number; None if not given, 0 if not supported. A scale per tensor is not counted."""
    algorithm = quantization.get("kv_cache_quant_algo")
    scheme = quantization.get("kv_cache_scheme")
    if scheme is None and algorithm is not None:
        return 1 if str(algorithm).upper() in ("FP8", "INT8") else 0
    if scheme is None:
        return None
    return 1 if isinstance(scheme, Mapping) and scheme.get("num_bits") == 8 else 0
