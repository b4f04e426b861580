"""Loading a model does not import the compiler, which a program can still import later."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow

LOADS = """
import json, sys
from engine.model.light_transformers import _incomplete
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


USES = """
import torch, transformers
from scipy.optimize import linear_sum_assignment
from transformers.loss import loss_for_object_detection as loss
costs = torch.rand(4, 5).numpy()
found["matches"] = all((a == b).all() for a, b in zip(loss.linear_sum_assignment(costs), linear_sum_assignment(costs)))
config = transformers.LlamaConfig(
    hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, vocab_size=50
)
module = transformers.LlamaForCausalLM(config).eval()
tokens = torch.arange(2, 18)[None]
with torch.no_grad():
    expected = module(tokens).logits
    module.set_attn_implementation("flex_attention")
    found["flex"] = torch.allclose(module(tokens).logits, expected, atol=1e-5)
found["incomplete"] = [module.__name__ for module, _ in _incomplete()]
"""


def facts_of(code: str, **more: str) -> dict[str, Any]:
    """Run `code` in a new process with more environment variables, and return its `found`."""
    command = [sys.executable, "-c", code + "\nprint(json.dumps(found))"]
    environment = os.environ | more
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_loading_a_model_does_not_import_the_compiler() -> None:
    assert facts_of(LOADS + THEN) == {
        "loaded": [],
        "whole": True,
        "disabled": True,
        "mode": "torch._dynamo._trace_wrapped_higher_order_op",
    }


def test_modules_that_were_hidden_from_transformers_remain_usable() -> None:
    assert facts_of(LOADS + USES) == {"loaded": [], "matches": True, "flex": True, "incomplete": []}


@pytest.mark.parametrize("variable", [{"KVTHEATER_LIGHT_IMPORT": "0"}, {"WORLD_SIZE": "2"}])
def test_transformers_is_imported_completely_on_request_and_for_ranks(variable: dict[str, str]) -> None:
    assert "torch._dynamo" in facts_of(LOADS, **variable)["loaded"]


def test_transformers_is_imported_completely_if_hiding_fails() -> None:
    code = (
        UNEXPECTED + LOADS + 'from transformers import DynamicCache; found["cache"] = DynamicCache().get_seq_length()'
    )
    found = facts_of(code)
    assert found["cache"] == 0 and "torch._dynamo" in found["loaded"]


def test_the_cached_list_of_models_equals_that_of_transformers() -> None:
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
    assert facts_of(code) == {"same": True, "some": True, "as_before": True}
