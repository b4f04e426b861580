"""The trace: typed records of every engine step, their bytes, their file, and the state that follows from them.

Imports nothing of the project. docs/reference/trace-format.md documents the format for other producers and readers.
"""
