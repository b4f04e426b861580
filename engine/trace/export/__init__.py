"""A trace for other programs: Perfetto, spreadsheets and data frames, readers of vLLM's KV events."""

from __future__ import annotations


class ExportError(Exception):
    """It cannot be exported; one sentence that says why and what to do."""
