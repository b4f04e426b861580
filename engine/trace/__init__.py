"""The trace: typed records of every engine step, their encoding, their file, and the state that they reproduce.

It imports no other package of the project. docs/reference/trace-format.md documents the format for other programs.
"""
