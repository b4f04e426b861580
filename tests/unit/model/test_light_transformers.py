"""A process of this program does not import the compiler, and can still load it."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from engine.model.light_name import LIGHT

pytestmark = pytest.mark.slow

LOADS = """
import json, sys
from engine.model.loader import load_model
model = load_model("bundled")
heavy = ["torch._dynamo", "torch._inductor", "torch.distributed.tensor", "scipy.optimize"]
found = {"loaded": [name for name in heavy if name in sys.modules]}
"""
THEN = """
import torch
import torch._dynamo
found["whole"] = hasattr(torch._dynamo, "optimize") and "torch._dynamo.convert_frame" in sys.modules
found["disabled"] = hasattr(torch.compiler.disable(lambda: 1), "_torchdynamo_disable")
from transformers.masking_utils import TransformGetItemToIndex
found["mode"] = type(TransformGetItemToIndex()).__module__
"""
UNEXPECTED = """
import sys
class Refuses:
    left = 1
    def find_spec(self, name, path=None, target=None):
        if name == "transformers.generation.utils" and self.left:
            self.left = 0
            raise AttributeError("torch._dynamo has no such decorator")
sys.meta_path.insert(0, Refuses())
"""


def facts_of(code: str, light: bool) -> dict[str, Any]:
    """Return what a new process puts into `found`."""
    environment = {name: value for name, value in os.environ.items() if name != LIGHT}
    environment |= {LIGHT: "1"} if light else {}
    command = [sys.executable, "-c", code + "\nprint(json.dumps(found))"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_server_loads_a_model_without_the_compiler_and_can_have_it_later() -> None:
    assert facts_of(LOADS + THEN, light=True) == {
        "loaded": [],
        "whole": True,
        "disabled": True,
        "mode": "torch._dynamo._trace_wrapped_higher_order_op",
    }


def test_an_importing_program_has_all_of_transformers() -> None:
    assert "torch._dynamo" in facts_of(LOADS, light=False)["loaded"]


def test_another_transformers_is_imported_whole() -> None:
    code = (
        UNEXPECTED + LOADS + 'from transformers import DynamicCache; found["cache"] = DynamicCache().get_seq_length()'
    )
    found = facts_of(code, light=True)
    assert found["cache"] == 0 and "torch._dynamo" in found["loaded"]


def test_models_that_are_listed_once_are_those_that_transformers_lists() -> None:
    code = """
import json
from pathlib import Path
import transformers
from transformers.utils import import_utils
from engine.model.light_transformers import _models_listed_once
path = str(Path(transformers.__file__).parent / "models" / "__init__.py")
expected = import_utils.define_import_structure.__wrapped__(path)
before = import_utils.create_import_structure_from_path
with _models_listed_once():
    found = {"same": import_utils.define_import_structure.__wrapped__(path) == expected, "some": bool(expected)}
found["as_before"] = import_utils.create_import_structure_from_path is before
"""
    assert facts_of(code, light=False) == {"same": True, "some": True, "as_before": True}
