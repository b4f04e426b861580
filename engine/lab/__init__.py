"""What is done to an engine from outside: run again from its log, changed, put in error on purpose, or watched.

This room reaches into the engine. The engine does not know it.
"""
