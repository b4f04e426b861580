"""The errors of this package."""

from __future__ import annotations

from engine.options.refusal import Refused


class TemplateSettingError(ValueError):
    """A setting that a chat template cannot be given; the message is one sentence."""


class ModelError(Refused):
    """A model that cannot be used; the message is one sentence that says why and, where there is one, the way out."""
