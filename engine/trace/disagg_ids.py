"""A request of which one instance computes the prompt and another one goes on: two submissions, of one request."""

from __future__ import annotations

PREFILL = "/prefill"  # ends the request id of the first


def plain_id(request_id: str) -> str:
    """The request that a submission is of."""
    return request_id.removesuffix(PREFILL)
