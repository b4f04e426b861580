"""The one error of this package."""

from __future__ import annotations


class ModelError(ValueError):
    """A model that cannot be used; the message is one sentence that says why and, where there is one, the way out."""
