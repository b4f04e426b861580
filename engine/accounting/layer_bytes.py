"""Cache bytes of a sequence on one GPU, as a sum over groups of layers.

For keys and values see Kwon et al., "PagedAttention", arXiv 2309.06180, section 3. A layer with a window caches the
latest w tokens, a recurrent layer a state of constant size, and a cross-attention layer the encoder's tokens. A page
holds S tokens, so the pages of a window contain the tokens from ⌊(T − w) / S⌋ · S on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from engine.accounting.derived import SYMBOL, Derived, Factor, Unit, derive
from engine.accounting.impossible import impossible
from engine.accounting.kv_shape import KvShape

WIDE_BYTES = 4  # float32


class ShapeBytes(NamedTuple):
    """Group of identical layers and its bytes per token, or per state."""

    shape: KvShape
    number: Derived
    symbol: str
    window: str  # symbol of the window


def kv_token(
    shape: KvShape, element_bytes: float, scale_bytes: int = 0, tensor_parallel: int = 1, id: str = "kv_token"
) -> Derived:
    """Return the bytes of one token on one GPU in all layers of the shape.

    `scale_bytes`: bytes of scales per vector of a quantized cache.

    Raises:
        ImpossibleInput: the KV heads can be neither divided among the GPUs nor replicated.
    """
    tp, heads = tensor_parallel, shape.num_kv_heads
    layers, size = Factor("L", shape.num_layers, "layers"), Factor("bytes", element_bytes, "element_bytes")
    scales = (Factor("s", scale_bytes, "scale_bytes"),) if scale_bytes else ()
    if shape.latent_dim:  # replicated on each GPU, because it has no heads
        vector = "(d · bytes + s)" if scales else "d · bytes"
        width = Factor("d", shape.latent_dim, "index_dim" if shape.role == "index" else "latent_dim")
        return derive(id, "B", f"L · {vector}", layers, width, size, *scales)
    if heads % tp and tp % heads:
        raise impossible("kv_heads", heads=heads, gpus=tp)
    own, gpus = ("⌈Hkv / tp⌉", (Factor("tp", tp, "tensor_parallel"),)) if tp > 1 else ("Hkv", ())
    if shape.head_dim == shape.v_head_dim:
        vector = "(D · bytes + s)" if scales else "D · bytes"
        formula, widths = f"2 · L · {own} · {vector}", [Factor("D", shape.head_dim, "head_dim")]
    else:
        vector = "((D + D_v) · bytes + 2 · s)" if scales else "(D + D_v) · bytes"
        formula = f"L · {own} · {vector}"
        widths = [Factor("D", shape.head_dim, "head_dim"), Factor("D_v", shape.v_head_dim, "v_head_dim")]
    return derive(id, "B", formula, layers, Factor("Hkv", heads, "kv_heads"), *gpus, *widths, size, *scales)


def kv_state(shape: KvShape, element_bytes: float, tensor_parallel: int = 1, id: str = "kv_state") -> Derived:
    """Return the bytes of a sequence's state on one GPU in all layers of the shape. GPUs divide the heads."""
    numbers = "((n − m) · bytes + m · w)" if shape.wide_state else "n · bytes"
    return derive_with(
        id, "B", f"⌈L · {numbers} / tp⌉", Factor("L", shape.num_layers, "layers"), Factor("n", shape.state, "state"),
        Factor("m", shape.wide_state, "wide_state"), Factor("w", WIDE_BYTES, "wide_state_bytes"),
        Factor("bytes", element_bytes, "state_bytes"), Factor("tp", tensor_parallel, "tensor_parallel"),
    )  # fmt: skip


class CacheBytes:
    """Cache bytes of a sequence of T tokens on one GPU, as formulas."""

    def __init__(
        self,
        shapes: Sequence[KvShape],
        element_bytes: float,
        scale_bytes: int = 0,
        tensor_parallel: int = 1,
        state_bytes: float = 2,
    ) -> None:
        """Derive the bytes of each shape.

        `element_bytes`: per cached number; `scale_bytes`: per vector; `state_bytes`: per number of a state.

        Raises:
            ImpossibleInput: the GPUs do not divide the heads.
        """
        alone = len(_growing(shapes)) == 1
        counted: Counter[str] = Counter()
        self.parts: list[ShapeBytes] = []
        for shape in shapes:
            kind = shape.kind
            counted[kind] += 1
            more = f"{counted[kind]}" if counted[kind] > 1 else ""
            if kind == "state":
                id, symbol = "kv_state", "s"
                number = kv_state(shape, state_bytes, tensor_parallel, id + more)
            else:
                is_only = alone and kind != "cross"
                id, symbol = ("kv_token", "k") if is_only else (f"kv_token_{kind}", f"k_{kind}")
                number = kv_token(shape, element_bytes, scale_bytes, tensor_parallel, id + more)
            self.parts.append(ShapeBytes(shape, number, symbol + more, "w" + (f"{counted[kind]}" if more else "")))

    @property
    def token(self) -> Derived | None:
        """Bytes of a further token while no window is full; None if tokens are not cached."""
        growing = [part for part in self.parts if part.shape.kind not in ("state", "cross")]
        if len(growing) <= 1:
            return growing[0].number if growing else None
        return derive("kv_token", "B", " + ".join(part.symbol for part in growing), *self._symbols("", growing))

    @property
    def numbers(self) -> list[Derived]:
        """The bytes of each group of layers, and of a token in all layers."""
        found = [part.number for part in self.parts]
        token = self.token
        return found if token is None or token in found else [*found, token]

    @property
    def has_cross(self) -> bool:
        return any(part.shape.role == "cross" for part in self.parts)

    def at(self, id: str, tokens: Factor, encoder: Factor) -> Derived:
        """Return the bytes of a sequence of `tokens`, without paging."""
        terms = {
            "sliding": "{k} · min({T}, {w})",
            "state": "{k}",
            "cross": "{k} · E",
        }
        return self._sum(id, terms, "{k} · {T}", tokens, encoder)

    def pages(self, id: str, tokens: Factor, encoder: Factor, block: Factor) -> Derived:
        """Return the bytes of the pages of a sequence of `tokens`."""
        terms = {
            "sliding": "{k} · (⌈{T} / S⌉ − ⌊max({T} − {w}, 0) / S⌋) · S",
            "state": "{k}",
            "cross": "{k} · ⌈E / S⌉ · S",
        }
        return self._sum(id, terms, "{k} · ⌈{T} / S⌉ · S", tokens, encoder, block)

    def prefix(self, id: str, tokens: Factor, prefix: Factor, block: Factor) -> Derived:
        """Return the bytes of a shared prefix's full pages inside the window. States are not shared."""
        terms = {
            "sliding": "{k} · max(⌊p / S⌋ − ⌊max({T} − {w}, 0) / S⌋, 0) · S",
            "state": "",
            "cross": "",
        }
        return self._sum(id, terms, "{k} · ⌊p / S⌋ · S", tokens, prefix, block)

    def _sum(self, id: str, terms: dict[str, str], usual: str, tokens: Factor, *others: Factor) -> Derived:
        summands = [
            terms.get(part.shape.kind, usual).format(k=part.symbol, T=tokens.symbol, w=part.window)
            for part in self.parts
        ]
        formula = " + ".join(one for one in summands if one) or "0"
        return derive_with(id, "B", formula, *self._symbols(formula, self.parts), tokens, *others)

    def _symbols(self, formula: str, parts: Sequence[ShapeBytes]) -> list[Factor]:
        factors = [part.number.as_factor(part.symbol) for part in parts]
        windows = {part.window: Factor(part.window, part.shape.window, "window") for part in parts if part.shape.window}
        return [*factors, *(windows.values() if formula else ())]


def derive_with(id: str, unit: Unit, formula: str, *factors: Factor) -> Derived:
    """Call `derive` with the factors that occur in the formula."""
    used = set(SYMBOL.findall(formula))
    return derive(id, unit, formula, *(factor for factor in factors if factor.symbol in used))


def _growing(shapes: Sequence[KvShape]) -> list[KvShape]:
    return [shape for shape in shapes if shape.kind not in ("state", "cross")]
