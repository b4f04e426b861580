"""Experiments on an engine: reruns of a log, forks with a change, injected faults, comparison with vLLM.

This package accesses private members of the engine. The engine does not import it.
"""
