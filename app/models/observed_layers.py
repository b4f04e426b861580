"""Choice of the arrays that a run records. It records none without viewers, and the visible ones first."""

from __future__ import annotations

from collections.abc import Callable

from engine.model.capture import DEFAULT_BUDGET, CaptureRequest
from engine.trace.records import ModelFacts

SMALL_BUDGET = 128 * 1024  # bytes of arrays per step in a downloaded log: enough for a decode step


class CaptureControl:
    """Controls the capture request of an engine. Initially everything is captured."""

    def __init__(self, facts: ModelFacts, is_small: bool, apply: Callable[[CaptureRequest | None], object]) -> None:
        """`apply` sets the capture request of the engine. `is_small`: the log will be downloaded."""
        self._is_float32, self._is_small, self._apply = facts.dtype == "float32", is_small, apply
        self._is_on = self._is_watched = True
        self._focus: tuple[list[int] | None, list[int] | None] = (None, None)
        self._update()

    def focus(self, layers: list[int] | None, heads: list[int] | None) -> None:
        """Set the layers and heads that are captured first. If there is no layer, nothing is captured."""
        self._focus = (layers, heads)
        self._update()

    def stop(self) -> None:
        """Record no arrays in the rest of the log."""
        self._is_on = False
        self._update()

    def set_watched(self, is_watched: bool) -> None:
        """Set whether the run has viewers."""
        self._is_watched = is_watched
        self._update()

    def _update(self) -> None:
        layers, heads = self._focus
        is_on = self._is_on and self._is_watched and layers != []
        self._apply(self._request(layers, heads) if is_on else None)

    def _request(self, layers: list[int] | None, heads: list[int] | None) -> CaptureRequest:
        """Return the capture request. Arrays of a float32 model are not rounded, so that the page's computations differ
        from the engine's only in the order of additions. Arrays of other models and of small logs are float16.
        """
        if self._is_small:
            return CaptureRequest(layers=layers, heads=heads, outputs=True, budget_bytes=SMALL_BUDGET)
        if not self._is_float32:
            return CaptureRequest(layers=layers, heads=heads, outputs=True)
        return CaptureRequest(
            layers=layers, heads=heads, outputs=True, dtype="float32", budget_bytes=2 * DEFAULT_BUDGET
        )


class CaptureMixin:
    """Mixin with the methods of `EngineLike` that control captures."""

    _captures: CaptureControl

    def focus(self, layers: list[int] | None, heads: list[int] | None) -> None:
        self._captures.focus(layers, heads)

    def stop_captures(self) -> None:
        self._captures.stop()

    def observe(self, is_watched: bool) -> None:
        self._captures.set_watched(is_watched)
