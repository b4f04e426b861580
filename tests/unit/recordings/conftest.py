"""Fixtures of recordings: a library, and a run of the fake engine with its records."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.recordings.library import Library
from app.session.messages import SubmittedPrompt
from app.session.run import Run
from engine.config import EngineConfig, SamplingParams
from tests.server.fake import FakeModel


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "recordings"


@pytest.fixture
def library(folder: Path) -> Iterator[Library]:
    library = Library(folder)
    yield library
    library.close()


@pytest.fixture
def run() -> Iterator[Run]:
    """Yield a run after a submission and two of its eight steps."""
    engine = FakeModel().build(EngineConfig(block_size=4, num_blocks=16), None)
    engine.submit([SubmittedPrompt(text="moonlight")], SamplingParams(max_tokens=8))
    run = Run(0, engine)
    steps(run, 2)
    yield run
    run.retire()


def steps(run: Run, count: int) -> None:
    for _ in range(count):
        run.engine.step()


@pytest.fixture
def make_trace(tmp_path: Path) -> Callable[[Path], Path]:
    """Return a function that writes a complete trace to a file."""

    def make(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        engine = FakeModel().build(EngineConfig(block_size=4, num_blocks=16), path)
        engine.submit([SubmittedPrompt(text="abc")], SamplingParams(max_tokens=5))
        while engine.num_unfinished():
            engine.step()
        engine.close()
        return path

    return make
