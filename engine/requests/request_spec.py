"""Request to an engine before validation."""

from __future__ import annotations

from typing import Literal, NamedTuple

from engine.config import SamplingParams
from engine.options.refusal import Refused, sentence
from engine.trace.operations import KVRole

MAX_TOKEN_CHARACTERS = 128  # length of the longest token in current vocabularies, a run of spaces
RequestField = Literal["max_tokens", "n", "priority", "logit_bias", "request_id"]


class RequestError(Refused):
    """Invalid request; the message is one sentence with the numbers. The engine's state is unchanged.

    `field`: the invalid field of the request; None: its prompt, or an adjustment.
    """

    def __init__(self, message: str, field: RequestField | None = None) -> None:
        super().__init__(message)
        self.field = field


def check_characters(num_characters: int, max_model_len: int) -> None:
    """Refuse a text that cannot fit, before it is tokenized.

    Raises:
        RequestError: the text has more characters than `max_model_len` of the longest tokens.
    """
    if num_characters > max_model_len * MAX_TOKEN_CHARACTERS:
        raise RequestError(
            sentence(
                "request.characters",
                num_characters=num_characters,
                max_model_len=max_model_len,
                number=max_model_len * MAX_TOKEN_CHARACTERS,
            )
        )


class RequestSpec(NamedTuple):
    """Request to the engine: `prompt` as text or token ids."""

    prompt: str | list[int]
    sampling: SamplingParams
    request_id: str | None = None
    priority: int = 0  # lower first; only under scheduling_policy "priority"
    cache_salt: str | None = None  # requests with different salts share no cached blocks
    client: str | None = None  # sender, if several clients share an engine
    waited: float = 0.0  # seconds in the queue before it was submitted
    transfer: str | None = None  # name of the transfer of its keys and values between instances
    kv_role: KVRole | None = None  # whether this instance sends or receives them
