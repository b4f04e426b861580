"""What is asked of an engine, before it has looked at it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from engine.config import SamplingParams
from engine.trace.events import KVRole

RequestField = Literal["max_tokens", "n", "priority", "logit_bias", "request_id"]


class RequestError(ValueError):
    """A request that cannot be served; the message is one sentence with the numbers. Nothing has changed.

    `field`: what of the request is at fault; None: its prompt, or what was asked of it later.
    """

    def __init__(self, message: str, field: RequestField | None = None) -> None:
        super().__init__(message)
        self.field = field


class RequestSpec(NamedTuple):
    """What is asked of the engine: `prompt` as text or token ids."""

    prompt: str | list[int]
    sampling: SamplingParams
    request_id: str | None = None
    priority: int = 0  # lower first; only under scheduling_policy "priority"
    cache_salt: str | None = None  # requests with different salts share no cached blocks
    client: str | None = None  # who sends it, where several share an engine
    waited: float = 0.0  # seconds that it has waited for its turn among them
    transfer: str | None = None  # the name under which its keys and values move between instances
    kv_role: KVRole | None = None  # whether they go from here, or come here
