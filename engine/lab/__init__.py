"""Outside operations on an engine: rerun from its log, changed, with injected faults, or monitored.

This room reaches into the engine. The engine does not know it.
"""
