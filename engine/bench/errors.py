"""Errors of a benchmark; each message is one sentence."""

from __future__ import annotations


class BenchError(ValueError):
    """Invalid scenario, record or run; the message says what is wrong, and where."""


class Cancelled(Exception):
    """The run was cancelled."""
