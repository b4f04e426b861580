"""Calls to the operating system and the interpreter."""
