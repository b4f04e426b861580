"""Size of a recurrent layer's state, including the latest inputs of its short convolution.

A convolution over k inputs stores k inputs, as in transformers; vLLM stores k − 1.

    gated delta net   (2 · Hk · Dk + Hv · Dv) · k  +  Hv · Dk · Dv    (Yang et al., arXiv 2412.06464)
    lightning         H · D · D                                       (MiniMax, arXiv 2501.08313)
    Mamba             d · k  +  d · N                                 (Gu and Dao, arXiv 2312.00752)
    Mamba-2           (d + 2 · G · N) · k  +  d · N                   (Dao and Gu, arXiv 2405.21060)
    RG-LRU            d · (k − 1)  +  d                               (De et al., arXiv 2402.19427)
    short convolution h · k                                           (LFM2)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.accounting.impossible import impossible

KERNELS = ("linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel", "conv_L_cache", "conv1d_width")
STATES = ("mamba_d_state", "ssm_state_size", "state_size")  # N
GROUPS = ("mamba_n_groups", "mamba_ngroups", "n_groups")  # G
MAMBA_HEADS = ("mamba_n_heads", "n_mamba_heads", "mamba_num_heads", "num_heads")
MAMBA_DIMS = ("mamba_d_head", "mamba_headdim", "mamba_head_dim", "head_dim")
EXPANDS = ("mamba_expand", "expand")


class StateSize(NamedTuple):
    """Numbers that one layer stores. `inputs`: of the convolution; `state`: recurrent state, possibly in float32."""

    inputs: int
    state: int


def state_size(config: Mapping[str, Any], kind: str) -> StateSize:
    """Return the state size of one layer. Raises ImpossibleInput: the configuration lacks a field of the formula."""
    kernel = _first(config, KERNELS)
    if kind == "conv":
        return StateSize(_required(config, ("hidden_size",)) * _required(config, ("conv_L_cache",)), 0)
    if config.get("linear_num_value_heads"):
        keys = _required(config, ("linear_num_key_heads",)) * _required(config, ("linear_key_head_dim",))
        heads, width = _required(config, ("linear_num_value_heads",)), _required(config, ("linear_value_head_dim",))
        values = heads * width
        return StateSize((2 * keys + values) * (kernel or 0), values * _required(config, ("linear_key_head_dim",)))
    if config.get("linear_num_heads") and config.get("linear_head_dim"):  # Kimi: keys and values of the same width
        inner = _required(config, ("linear_num_heads",)) * _required(config, ("linear_head_dim",))
        return StateSize(3 * inner * (kernel or 0), inner * _required(config, ("linear_head_dim",)))
    if config.get("model_type") == "recurrent_gemma":
        width = _first(config, ("lru_width", "hidden_size")) or 0
        return StateSize(width * (_required(config, ("conv1d_width",)) - 1), width)
    states = _first(config, STATES)
    if states is None:  # lightning attention: one matrix per head
        heads = _required(config, ("num_attention_heads",))
        width = _first(config, ("head_dim",)) or _required(config, ("hidden_size",)) // heads
        return StateSize(0, heads * width * width)
    groups = _first(config, GROUPS)
    if groups is None:
        own = config.get("model_type") in ("mamba", "falcon_mamba")
        inner = (_first(config, ("intermediate_size",)) or 0) if own else 0
        inner = inner or (_first(config, EXPANDS) or 2) * _required(config, ("hidden_size",))
        return StateSize(inner * _required(config, KERNELS), inner * states)
    inner = _required(config, MAMBA_HEADS) * _required(config, MAMBA_DIMS)
    return StateSize((inner + 2 * groups * states) * _required(config, KERNELS), inner * states)


def _required(config: Mapping[str, Any], names: tuple[str, ...]) -> int:
    found = _first(config, names)
    if found is None:
        raise impossible("no_field", field=names[0])
    return found


def _first(config: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1 << 30:
            raise impossible("bad_field", field=name, value=str(value)[:40], most=1 << 30)
        return value
    return None
