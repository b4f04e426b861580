"""Benchmarks: declared scenarios, variants run in turns on one machine, and records of the measurements."""
