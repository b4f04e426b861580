"""Scheduling and cache without a model: queueing formulas, a simulator, placement. Does not import torch."""
