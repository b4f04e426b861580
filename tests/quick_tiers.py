"""Tiers that are faster than the smallest model's prefill on any machine, under any load."""

from engine.connector.tiers.speeds import Line, Speeds
from engine.trace.operations import Medium


class QuickTiers(Speeds):
    def add_tier(self, tier: Medium, line: Line | None) -> None:
        super().add_tier(tier, Line(0.0, 1e-12))

    def note_load(self, tier: Medium, num_bytes: int, seconds: float) -> None:
        pass

    def note_placing(self, num_bytes: int, seconds: float) -> None:
        pass
