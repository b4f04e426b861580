"""Conversion of client submissions into engine requests."""

from __future__ import annotations

from collections.abc import Sequence

from app.models.engine_face import Prompt
from engine.config import SamplingParams
from engine.requests.request_spec import RequestSpec


def specs_of(prompts: Sequence[Prompt], sampling: SamplingParams) -> list[RequestSpec]:
    """Return a request for each prompt."""
    return [RequestSpec(p.text, sampling, p.request_id, p.priority, p.cache_salt, p.client, p.waited) for p in prompts]
