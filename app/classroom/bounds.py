"""What guests may ask of a run that they command: their own, or the class's while they drive."""

from __future__ import annotations

from app import messages
from app.errors import AppError
from app.pool_bytes import pool_bytes
from app.theater import Theater
from engine.config import ConfigError, EngineConfig, SamplingParams

MOST_PROMPTS = 8  # at once
MOST_PROMPT_BYTES = 4096  # of UTF-8: a step of one's run is as long as its prompts, and others wait for it
MOST_TOKENS = 256  # that one answer has
MOST_SEQUENCES = 8  # for one prompt


def check_submit(message: messages.Submit, sampling: SamplingParams) -> None:
    """Raises AppError: `refused`."""
    if len(message.prompts) > MOST_PROMPTS:
        raise AppError("refused", f"in a class {MOST_PROMPTS} prompts are taken at once")
    if any(len(prompt.text.encode("utf-8", "replace")) > MOST_PROMPT_BYTES for prompt in message.prompts):
        raise AppError("refused", f"in a class a prompt has at most {MOST_PROMPT_BYTES} bytes of UTF-8")
    if sampling.max_tokens is None or sampling.max_tokens > MOST_TOKENS:
        raise AppError("refused", f"in a class an answer has at most {MOST_TOKENS} tokens: set max_tokens")
    if sampling.num_sequences > MOST_SEQUENCES:
        raise AppError("refused", f"in a class a prompt has at most {MOST_SEQUENCES} sequences")


def check_configure(theater: Theater, config: EngineConfig, model: str | None) -> None:
    """A guest's run takes no more than the class's, and is on its model.

    Raises:
        AppError: `refused`.
    """
    if model not in (None, theater.model_name):
        raise AppError("refused", "in a class a run stays on the class's model")
    facts = theater.model.facts
    try:
        wanted = pool_bytes(config, facts)
        most = theater.most_pool_bytes or pool_bytes(theater.config, facts)
    except ConfigError as error:
        raise AppError("refused", str(error)) from error
    if wanted > most:
        raise AppError("refused", f"in a class a pool has at most the {most} bytes of the class's run, not {wanted}")
