"""Benchmark runs of a server, and the page /bench."""
