"""Calls on the operating system and the interpreter."""
