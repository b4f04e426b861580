"""Stages of loading a model, in order. Imports no torch, since importing it is the first stage."""

from __future__ import annotations

from typing import Literal, get_args

LoadingStage = Literal["torch", "vocabulary", "weights", "check"]
LOADING_STAGES: tuple[LoadingStage, ...] = get_args(LoadingStage)

# Texts of the stages in a terminal; the page has its own.
IN_WORDS: dict[LoadingStage, str] = {
    "torch": "starting torch",
    "vocabulary": "reading its vocabulary",
    "weights": "reading its weights",
    "check": "comparing its paged attention with its own forward pass",
}
