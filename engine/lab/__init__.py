"""Experiments on an engine: rerun from a log, rerun with a change, injected faults, comparison with vLLM.

This package accesses the engine's private parts; the engine does not import it.
"""
