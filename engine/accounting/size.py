"""Memory of a model under a load, and the number of requests that fit on a GPU.

Each number is a `Derived`. The memory is the sum of weights, cache, activations and an assumed reserve.

Activations: vLLM runs a step of max_num_batched_tokens before it allocates its cache, and excludes the step's peak
memory from the cache (`determine_available_memory`). This module counts the tensors that are live at the widest point
of a forward pass: either two of the hidden size and three of the MLP's width (its two projections and their product),
or the hidden states and one row of logits per sequence, in their dtype and in float32 for sampling. The reserve covers
kernel workspaces.
"""

from __future__ import annotations

from msgspec import Struct

from engine.accounting.derived import Derived, Factor, derive
from engine.accounting.impossible import impossible
from engine.accounting.kv_shape import Architecture
from engine.accounting.layer_bytes import CacheBytes, derive_with
from engine.accounting.weights import KEPT_BYTES, WeightStore

AT_LEAST_ONE = ("batch", "context", "max_model_len", "block_size", "tensor_parallel", "max_num_batched_tokens")
ACTIVATION_BYTES = 2.0  # float16 and bfloat16, also with quantized weights or cache


class Stored(Struct, frozen=True, kw_only=True):
    """Storage of weights and cache. `element`: bytes per cached number; `scales`: bytes of scales per vector."""

    weights: WeightStore = WeightStore()
    element: float = 2
    scales: int = 0


class Load(Struct, frozen=True, kw_only=True):
    """Load on a GPU. Token counts are per request."""

    batch: int = 1
    context: int = 2048
    max_model_len: int = 4096
    encoder_tokens: int = 1500  # tokens that cross-attention reads; default: Whisper, 30 seconds
    shared_prefix: int = 0
    block_size: int = 16
    tensor_parallel: int = 1
    max_num_batched_tokens: int = 8192
    arrivals: float = 1.0  # requests per second, each of which is transferred once
    utilization: float = 0.9  # gpu_memory_utilization of vLLM
    reserve_bytes: int = 1 << 30  # other memory; an assumption

    def checked(self) -> Load:
        """Validate the load and return self. Raises ImpossibleInput: a count is invalid or contradicts another."""
        for name in AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise impossible("at_least_one", name=name, value=getattr(self, name))
        if self.encoder_tokens < 0 or self.reserve_bytes < 0 or self.arrivals < 0:
            name = next(one for one in ("encoder_tokens", "reserve_bytes", "arrivals") if getattr(self, one) < 0)
            raise impossible("below_zero", name=name, value=getattr(self, name))
        if self.context > self.max_model_len:
            raise impossible("context", context=self.context, most=self.max_model_len)
        if not 0 < self.utilization <= 1:
            raise impossible("utilization", value=self.utilization)
        if not 0 <= self.shared_prefix < self.context:
            raise impossible("shared_prefix", prefix=self.shared_prefix, context=self.context)
        return self


class Cost:
    """Memory of a model under a load, on one of `tensor_parallel` GPUs. Each attribute is a number with its formula."""

    def __init__(self, model: Architecture, stored: Stored, load: Load) -> None:
        """Compute the memory.

        Raises:
            ImpossibleInput: the load is invalid, or the GPUs do not divide the model's heads.
        """
        self.model, self.stored, self.load = model, stored, load.checked()
        tp = load.tensor_parallel
        if model.num_heads and model.num_heads % tp:
            raise impossible("heads", name=model.name, heads=model.num_heads, gpus=tp)
        self._tp = Factor("tp", tp, "tensor_parallel")
        self._context, self._encoder = (
            Factor("T", load.context, "context"),
            Factor("E", load.encoder_tokens, "encoder_tokens"),
        )
        self._block = Factor("S", load.block_size, "block_size")
        self.cache = CacheBytes(model.shapes, stored.element, stored.scales, tp)
        self.request = self.cache.at("kv_request", self._context, self._encoder)
        count = Factor("B", load.batch, "batch")
        self.batch = derive("kv_batch", "B", "B · r", count, self.request.as_factor("r"))
        self.weights = self._weights("weights", model.num_params, "params")
        self.share = derive("kv_share", "1", "C / W", self.batch.as_factor("C"), self.weights.as_factor("W"))
        self.activations = self._activations()
        self.reserve = Factor("R", load.reserve_bytes, "reserve")
        fixed = self._fixed()
        self.total = derive(
            "total", "B", " + ".join(one.symbol for one in (*fixed, self.reserve, self.batch.as_factor("C"))),
            *fixed, self.reserve, self.batch.as_factor("C"),
        )  # fmt: skip

    @property
    def numbers(self) -> list[Derived]:
        """Return all numbers in display order."""
        activations = [self.activations] if self.activations else []
        return [*self.cache.numbers, self.request, self.batch, self.weights, self.share, *activations, self.total]

    def capacity(self, memory_bytes: int) -> list[Derived]:
        """Return the bytes available to the cache and the numbers of requests that fit.

        These are with a reservation of max_model_len per request, with paging, and with paging and a shared prefix.
        If the weights do not fit, only the bytes are returned.
        """
        memory, part = Factor("M", memory_bytes, "gpu_memory"), Factor("u", self.load.utilization, "utilization")
        fixed = (*self._fixed(), self.reserve)
        less = "".join(f" − {one.symbol}" for one in fixed)
        free = derive("kv_room", "B", f"⌊M · u{less}⌋", memory, part, *fixed)
        if free.value <= 0:
            return [free]
        room, load = free.as_factor("F"), self.load
        most = Factor("N", load.max_model_len, "max_model_len")
        piece = self.cache.at("kv_piece", most, self._encoder)
        pages = self.cache.pages("kv_pages", self._context, self._encoder, self._block)
        found = [
            free,
            piece,
            derive("reserved", "requests", "⌊F / b⌋", room, piece.as_factor("b")),
            pages,
            derive("paged", "requests", "⌊F / b⌋", room, pages.as_factor("b")),
        ]
        if load.shared_prefix >= load.block_size:  # only full blocks are shared
            prefix = Factor("p", load.shared_prefix, "shared_prefix")
            common = self.cache.prefix("kv_prefix", self._context, prefix, self._block)
            formula = "⌊max(F − q, 0) / (b − q)⌋"
            found += [
                common,
                derive("shared", "requests", formula, room, common.as_factor("q"), pages.as_factor("b")),
            ]
        return found

    def used_shares(self) -> list[Derived]:
        """Return the used share of a request's allocated memory, for a reservation of max_model_len and for pages."""
        own = self.request.as_factor("r")
        piece = self.cache.at("kv_piece", Factor("N", self.load.max_model_len, "max_model_len"), self._encoder)
        pages = self.cache.pages("kv_pages", self._context, self._encoder, self._block)
        return [
            derive("held_reserved", "1", "r / b", own, piece.as_factor("b")),
            derive("held_paged", "1", "r / b", own, pages.as_factor("b")),
        ]

    def transferred(self) -> list[Derived]:
        """Return the cache bytes of a request on all GPUs, and the rate if each request is transferred once."""
        whole = CacheBytes(self.model.shapes, self.stored.element, self.stored.scales)
        one = whole.at("kv_moved", self._context, self._encoder)
        arrivals = Factor("λ", self.load.arrivals, "arrivals")
        each = derive("kv_rate", "B/s", "λ · m", arrivals, one.as_factor("m"))
        return [one, each, derive("kv_bit_rate", "bit/s", "8 · v", each.as_factor("v"))]

    def transfer_over(self, bytes_per_second: float, both_directions: bool = False) -> list[Derived]:
        """Return the transfer seconds of a request over a link, and the link's utilization.

        `both_directions`: the rate is the sum of both directions, so one direction has half of it.
        """
        one, each, _ = self.transferred()
        rate = Factor("v", bytes_per_second, "link_rate_both" if both_directions else "link_rate")
        own = "(v / 2)" if both_directions else "v"
        return [
            derive("transfer", "s", f"m / {own}", one.as_factor("m"), rate),
            derive("link_share", "1", f"x / {own}", each.as_factor("x"), rate),
        ]

    def _weights(self, id: str, num_params: int, meaning: str) -> Derived:
        store = self.stored.weights
        params, size = Factor("P", num_params, meaning), Factor("bytes", store.each, "weight_bytes")
        if not store.unquantized:
            return derive(id, "B", "⌈P · bytes / tp⌉", params, size, self._tp)
        kept, wide = Factor("e", store.unquantized, "kept_params"), Factor("w", KEPT_BYTES, "kept_bytes")
        return derive(id, "B", "⌈((P − e) · bytes + e · w) / tp⌉", params, kept, size, wide, self._tp)

    def _fixed(self) -> list[Factor]:
        """Return the weights and, if they can be computed, the activations."""
        activations = [self.activations.as_factor("A")] if self.activations else []
        return [self.weights.as_factor("W"), *activations]

    def _activations(self) -> Derived | None:
        model = self.model
        if not (model.hidden_size and model.intermediate_size and model.vocab_size):
            return None
        return derive_with(
            "activations", "B", "max(n · (2 · h + 3 · f / tp) · a, n · h · a + B · V · (a + 4))",
            Factor("n", self.load.max_num_batched_tokens, "max_num_batched_tokens"),
            Factor("h", model.hidden_size, "hidden_size"), Factor("f", model.intermediate_size, "intermediate_size"),
            self._tp, Factor("a", ACTIVATION_BYTES, "activation_bytes"), Factor("B", self.load.batch, "batch"),
            Factor("V", model.vocab_size, "vocab_size"),
        )  # fmt: skip
