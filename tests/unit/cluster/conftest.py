"""Fixture of a small model in a folder, for instances that are processes."""

import pytest

from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from tests.unit.cluster.processes import save_tiny_llama


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_llama(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def model(folder: str) -> LoadedModel:
    return load_model(folder)
