"""Ids of a disaggregated request: one instance runs prefill, another decodes, so it is submitted twice."""

from __future__ import annotations

PREFILL = "/prefill"  # suffix of the prefill submission's request id


def plain_id(request_id: str) -> str:
    """Return the request id without the suffix of a submission."""
    return request_id.removesuffix(PREFILL)
