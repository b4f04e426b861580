"""Fuzzer of both trace readers with hostile and damaged traces: `python -m tests.fuzz`."""
