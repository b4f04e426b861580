"""Ids of a disaggregated request: one instance runs prefill, another decodes, so it is submitted twice."""

from __future__ import annotations

PREFILL = "/prefill"  # ends the request id of the first


def plain_id(request_id: str) -> str:
    """Return the request that a submission is of."""
    return request_id.removesuffix(PREFILL)
