"""Benchmarks: variants of one job, run in turns on one machine, compared as ratios."""
