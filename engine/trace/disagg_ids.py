"""Ids of disaggregated requests, which are submitted twice: to a prefill instance and to a decode instance."""

from __future__ import annotations

PREFILL = "/prefill"  # suffix of the prefill submission's request id


def plain_id(request_id: str) -> str:
    """Return the request id without the suffix of its prefill submission."""
    return request_id.removesuffix(PREFILL)
