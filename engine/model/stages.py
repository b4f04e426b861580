"""What is done, in which order, until a model can be served. Imports no torch: importing it is the first of them."""

from __future__ import annotations

from typing import Literal, get_args

Stage = Literal["torch", "vocabulary", "weights", "check"]
STAGES: tuple[Stage, ...] = get_args(Stage)

# What a terminal says of each; the page has its own words.
IN_WORDS: dict[Stage, str] = {
    "torch": "starting torch",
    "vocabulary": "reading its vocabulary",
    "weights": "reading its weights",
    "check": "comparing its paged attention with its own forward pass",
}
