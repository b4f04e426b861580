"""Scheduling and cache without a model: queueing formulas, a simulator, placement. Knows no torch."""
