"""What a model takes in memory under a load, and how many requests a GPU holds beside its weights.

Each number is a `Derived`. Keys and values: Kwon et al., "PagedAttention", arXiv 2309.06180, 3; one latent vector in
place of them: DeepSeek-AI, arXiv 2405.04434, 2.1.
"""

from __future__ import annotations

from msgspec import Struct

from engine.accounting.derived import Derived, Factor, derive


class KvShape(Struct, frozen=True):
    """What a model keeps of a token: in each layer a key and a value for each KV head, or one latent vector."""

    num_layers: int
    num_kv_heads: int = 0
    head_dim: int = 0
    v_head_dim: int = 0
    latent_dim: int = 0


class Load(Struct, frozen=True, kw_only=True):
    """What is asked of a GPU. Counts of tokens are of one request."""

    batch: int = 1
    context: int = 2048
    max_model_len: int = 4096
    shared_prefix: int = 0
    block_size: int = 16
    tensor_parallel: int = 1
    utilization: float = 0.9  # gpu_memory_utilization of vLLM
    reserve_bytes: int = 1 << 30  # activations and what else is neither weights nor cache: assumed, not computed


def kv_token(shape: KvShape, element_bytes: float, scale_bytes: int = 0, tensor_parallel: int = 1) -> Derived:
    """Bytes of one token on one GPU, all layers; `scale_bytes` stand beside each vector of a quantized cache.

    Raises:
        ValueError: the KV heads can be neither divided among the GPUs nor repeated on them.
    """
    tp, heads = tensor_parallel, shape.num_kv_heads
    layers, size = Factor("L", shape.num_layers, "layers"), Factor("bytes", element_bytes, "element_bytes")
    scales = (Factor("s", scale_bytes, "scale_bytes"),) if scale_bytes else ()
    if shape.latent_dim:  # each GPU keeps the whole latent vector: it has no heads to divide
        vector = "(d · bytes + s)" if scales else "d · bytes"
        return derive(
            "kv_token", "B", f"L · {vector}", layers, Factor("d", shape.latent_dim, "latent_dim"), size, *scales
        )
    if heads % tp and tp % heads:
        raise ValueError(
            f"{heads} KV heads cannot be divided among {tp} GPUs; choose a divisor or a multiple of {heads}"
        )
    own, gpus = ("⌈Hkv / tp⌉", (Factor("tp", tp, "tensor_parallel"),)) if tp > 1 else ("Hkv", ())
    if shape.head_dim == shape.v_head_dim:
        vector = "(D · bytes + s)" if scales else "D · bytes"
        formula, widths = f"2 · L · {own} · {vector}", [Factor("D", shape.head_dim, "head_dim")]
    else:
        vector = "((D + D_v) · bytes + 2 · s)" if scales else "(D + D_v) · bytes"
        formula = f"L · {own} · {vector}"
        widths = [Factor("D", shape.head_dim, "head_dim"), Factor("D_v", shape.v_head_dim, "v_head_dim")]
    return derive("kv_token", "B", formula, layers, Factor("Hkv", heads, "kv_heads"), *gpus, *widths, size, *scales)


def sizes(token: Derived, num_params: int, weight_bytes: float, load: Load) -> list[Derived]:
    """Bytes on one GPU: a token, a request, the batch, the weights, and all together.

    Raises:
        ValueError: a count of the load is not positive, or the context is longer than max_model_len.
    """
    for name in ("batch", "context", "max_model_len", "block_size", "tensor_parallel"):
        if getattr(load, name) < 1:
            raise ValueError(f"{name} is {getattr(load, name)}; it is at least 1")
    if load.context > load.max_model_len:
        raise ValueError(f"the context of {load.context} tokens is longer than max_model_len = {load.max_model_len}")
    tp = Factor("tp", load.tensor_parallel, "tensor_parallel")
    context = Factor("T", load.context, "context")
    request = derive("kv_request", "B", "k · T", token.as_factor("k"), context)
    batch = derive("kv_batch", "B", "B · r", Factor("B", load.batch, "batch"), request.as_factor("r"))
    params, size = Factor("P", num_params, "params"), Factor("bytes", weight_bytes, "weight_bytes")
    weights = derive("weights", "B", "⌈P · bytes / tp⌉", params, size, tp)
    share = derive("kv_share", "1", "C / W", batch.as_factor("C"), weights.as_factor("W"))
    reserve = Factor("A", load.reserve_bytes, "reserve")
    total = derive("total", "B", "W + C + A", weights.as_factor("W"), batch.as_factor("C"), reserve)
    return [token, request, batch, weights, share, total]


def fits(token: Derived, weights: Derived, memory_bytes: int, load: Load) -> list[Derived]:
    """Bytes that are left for the cache, and requests that they hold: in pages, reserved in one piece of max_model_len,
    and in pages of which all share a prefix. Nothing but the bytes, below zero, if the weights do not fit.

    Raises:
        ValueError: the utilization is not above 0 and at most 1, or the shared prefix is not shorter than the context.
    """
    if not 0 < load.utilization <= 1:
        raise ValueError(f"gpu_memory_utilization is {load.utilization}; it lies above 0 and is at most 1")
    if not 0 <= load.shared_prefix < load.context:
        raise ValueError(f"a shared prefix of {load.shared_prefix} tokens is not shorter than the context")
    memory, part = Factor("M", memory_bytes, "gpu_memory"), Factor("u", load.utilization, "utilization")
    reserve = Factor("A", load.reserve_bytes, "reserve")
    free = derive("kv_room", "B", "⌊M · u − W − A⌋", memory, part, weights.as_factor("W"), reserve)
    if free.value <= 0:
        return [free]
    room, k, block = free.as_factor("F"), token.as_factor("k"), Factor("S", load.block_size, "block_size")
    context, most = Factor("T", load.context, "context"), Factor("N", load.max_model_len, "max_model_len")
    found = [
        free,
        derive("blocks", "blocks", "⌊F / (k · S)⌋", room, k, block),
        derive("reserved", "requests", "⌊F / (k · N)⌋", room, k, most),
    ]
    blocks = found[1].as_factor("n")
    found.append(derive("paged", "requests", "⌊n / ⌈T / S⌉⌋", blocks, context, block))
    prefix = Factor("p", load.shared_prefix, "shared_prefix")
    if load.shared_prefix >= load.block_size:  # only whole blocks are shared
        formula = "⌊max(n − ⌊p / S⌋, 0) / (⌈T / S⌉ − ⌊p / S⌋)⌋"
        found.append(derive("shared", "requests", formula, blocks, prefix, context, block))
    return found
