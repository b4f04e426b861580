"""Bytes of KV cache."""

from __future__ import annotations

from engine.accounting.shape import ModelShape, kv_shapes

BYTES_PER_ELEMENT = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8": 1, "int8": 1, "int4": 0.5}


def bytes_per_element(dtype: str) -> float:
    """Return the bytes per element of a dtype (int4: 0.5). Raises ValueError: unknown dtype."""
    try:
        return BYTES_PER_ELEMENT[dtype]
    except KeyError:
        raise ValueError(f"dtype {dtype!r} is unknown; use one of {', '.join(BYTES_PER_ELEMENT)}") from None


def bytes_per_weight(facts: ModelShape) -> float:
    """Return the average bytes per weight that a step reads."""
    return bytes_per_element(facts.dtype) if facts.bytes_per_weight is None else facts.bytes_per_weight


def kv_elements_per_token(facts: ModelShape) -> int:
    """Return the number of values cached per token in all layers: the sum of Hkv * (D + Dv).

    This is 2 * layers * Hkv * D for identical layers with D = Dv, and layers * latent_dim for MLA.
    """
    if facts.latent_dim:
        return facts.num_layers * facts.latent_dim
    return sum(heads * (keys + values) for heads, keys, values in kv_shapes(facts))


def kv_bytes_per_token(facts: ModelShape, element_bytes: float | None = None) -> int:
    """Return the bytes of KV cache per token in all layers. `element_bytes`: None for the model's dtype.

    2 (keys and values) * layers * Hkv * D * bytes per element (Kwon et al., "PagedAttention", arXiv 2309.06180, 3).
    """
    size = bytes_per_element(facts.dtype) if element_bytes is None else element_bytes
    return int(kv_elements_per_token(facts) * size)


def stored_bytes_per_token(facts: ModelShape, kv_cache_dtype: str = "auto") -> int:
    """Return the bytes per token in a cache of `kv_cache_dtype`, including scales.

    A vector of D numbers takes D * size bytes in a floating-point dtype, D in fp8 (e4m3), D + 2 in int8 (a float16
    scale), D / 2 + 4 in int4 (a float16 scale and a zero point).
    """
    size, scales = stored_element(facts.dtype if kv_cache_dtype == "auto" else kv_cache_dtype)
    if facts.latent_dim:
        return int(facts.num_layers * (facts.latent_dim * size + scales))
    return int(sum(heads * ((keys + values) * size + 2 * scales) for heads, keys, values in kv_shapes(facts)))


def stored_element(dtype: str) -> tuple[float, int]:
    """Return (bytes per number, bytes of scales per vector) for a dtype. Raises ValueError: unknown dtype."""
    if dtype.startswith("fp8"):
        return 1, 0
    return bytes_per_element(dtype), {"int8": 2, "int4": 4}.get(dtype, 0)
