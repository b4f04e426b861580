"""Errors of a benchmark; each message is one sentence."""

from __future__ import annotations


class BenchError(ValueError):
    """A scenario, a record or a run that cannot work: what is wrong, and where."""


class Cancelled(Exception):
    """The run was cancelled."""
