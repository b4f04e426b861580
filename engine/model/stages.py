"""Stages of loading a model, in order. Imports no torch, since importing it is the first stage."""

from __future__ import annotations

from typing import Literal, get_args

Stage = Literal["torch", "vocabulary", "weights", "check"]
STAGES: tuple[Stage, ...] = get_args(Stage)

# Texts of the stages in a terminal; the page has its own.
IN_WORDS: dict[Stage, str] = {
    "torch": "starting torch",
    "vocabulary": "reading its vocabulary",
    "weights": "reading its weights",
    "check": "comparing its paged attention with its own forward pass",
}
