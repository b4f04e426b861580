"""Hostile and damaged traces, made and given to both readers: `python -m tests.fuzz`."""
