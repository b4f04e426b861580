"""Export of a trace to other programs: Perfetto, spreadsheets, data frames, and consumers of vLLM's KV events."""

from __future__ import annotations


class ExportError(Exception):
    """The trace cannot be exported. The message says why and what to do."""
