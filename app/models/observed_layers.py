"""Choice of the arrays that a run records: only with viewers, and their focus first."""

from __future__ import annotations

from collections.abc import Callable

from engine.model.capture import DEFAULT_BUDGET, CaptureRequest
from engine.trace.records import ModelFacts

SMALL_BUDGET = 128 * 1024  # bytes of arrays a step, of a log that travels: of a decode step all, of a prefill most


class Observing:
    """Updates the capture request of an engine whenever it changes; initially everything is captured."""

    def __init__(self, facts: ModelFacts, is_small: bool, tell: Callable[[CaptureRequest | None], object]) -> None:
        """`is_small`: the log travels."""
        self._is_float32, self._is_small, self._tell = facts.dtype == "float32", is_small, tell
        self._is_on = self._is_watched = True
        self._focus: tuple[list[int] | None, list[int] | None] = (None, None)
        self._changed()

    def focus(self, layers: list[int] | None, heads: list[int] | None) -> None:
        """Set the first priority of captures; no layer: no captures."""
        self._focus = (layers, heads)
        self._changed()

    def stop(self) -> None:
        """Record no arrays in the rest of the log."""
        self._is_on = False
        self._changed()

    def watched(self, is_watched: bool) -> None:
        """Set whether the run has viewers."""
        self._is_watched = is_watched
        self._changed()

    def _changed(self) -> None:
        layers, heads = self._focus
        wanted = self._is_on and self._is_watched and layers != []
        self._tell(self._request(layers, heads) if wanted else None)

    def _request(self, layers: list[int] | None, heads: list[int] | None) -> CaptureRequest:
        """Captures in the precision of the model: float32 unrounded, so that what the page computes from them differs
        from the engine by the order of additions alone; other models, and logs that are to be small, in float16, at
        half the bytes.
        """
        if self._is_small:
            return CaptureRequest(layers=layers, heads=heads, outputs=True, budget_bytes=SMALL_BUDGET)
        if not self._is_float32:
            return CaptureRequest(layers=layers, heads=heads, outputs=True)
        return CaptureRequest(
            layers=layers, heads=heads, outputs=True, dtype="float32", budget_bytes=2 * DEFAULT_BUDGET
        )


class Observed:
    """The part of `EngineLike` that chooses what a run captures."""

    _observing: Observing

    def focus(self, layers: list[int] | None, heads: list[int] | None) -> None:
        self._observing.focus(layers, heads)

    def stop_captures(self) -> None:
        self._observing.stop()

    def observe(self, is_watched: bool) -> None:
        self._observing.watched(is_watched)
