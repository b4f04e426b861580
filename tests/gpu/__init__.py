"""Tests that need a GPU, in one run of a few minutes: `python -m tests.gpu`."""
