"""Hostile and damaged traces for both readers: `python -m tests.fuzz`."""
