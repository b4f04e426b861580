"""The section "A paper's figures" of the page /scale: DistServe's, from public inputs, beside what it prints."""

from __future__ import annotations

import threading

from flask import Request, Response

from app.ground.routing import json_answer
from engine.simulate.distserve import paper

_computing = threading.Lock()  # some seconds of one core, once, whoever asks first


def papers_figures(here: object, request: Request) -> Response:
    """All four; they depend on nothing that is asked."""
    with _computing:
        return json_answer(paper())
