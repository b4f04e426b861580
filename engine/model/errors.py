"""Errors of this package."""

from __future__ import annotations

from engine.options.refusal import Refused


class TemplateSettingError(ValueError):
    """A setting that no chat template accepts; the message is one sentence."""


class ModelError(Refused):
    """A model that cannot be used; the message is one sentence with the reason and, if there is one, the remedy."""
