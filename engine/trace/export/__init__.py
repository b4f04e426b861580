"""Export of a trace for other programs: Perfetto, spreadsheets, data frames, readers of vLLM's KV events."""

from __future__ import annotations


class ExportError(Exception):
    """The trace cannot be exported; the message says why and what to do."""
