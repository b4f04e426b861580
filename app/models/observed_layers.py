"""Choice of the arrays that a run records: only while it has viewers, and those on view first."""

from __future__ import annotations

from collections.abc import Callable

from engine.model.capture import DEFAULT_BUDGET, CaptureRequest
from engine.trace.records import ModelFacts

SMALL_BUDGET = 128 * 1024  # bytes of arrays per step in a downloaded log: enough for a decode step


class Observing:
    """Updates the capture request of an engine whenever it changes; initially everything is captured."""

    def __init__(self, facts: ModelFacts, is_small: bool, tell: Callable[[CaptureRequest | None], object]) -> None:
        """`is_small`: the log will be downloaded."""
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
        """Return the captures to request. Arrays of a float32 model are not rounded, so the page's computations differ
        from the engine's only by the order of additions. Other models, and small logs, have float16 arrays.
        """
        if self._is_small:
            return CaptureRequest(layers=layers, heads=heads, outputs=True, budget_bytes=SMALL_BUDGET)
        if not self._is_float32:
            return CaptureRequest(layers=layers, heads=heads, outputs=True)
        return CaptureRequest(
            layers=layers, heads=heads, outputs=True, dtype="float32", budget_bytes=2 * DEFAULT_BUDGET
        )


class Observed:
    """Part of `EngineLike` that chooses the captures of a run."""

    _observing: Observing

    def focus(self, layers: list[int] | None, heads: list[int] | None) -> None:
        self._observing.focus(layers, heads)

    def stop_captures(self) -> None:
        self._observing.stop()

    def observe(self, is_watched: bool) -> None:
        self._observing.watched(is_watched)
