"""A cached compiled forward pass serves the same model with any weights, and no other model."""

import ctypes
import json
import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.model import compiled
from engine.model.compile_cache import find
from engine.model.compiled import compile_model
from engine.model.forward_key import forward_key
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module
from tests.parity.harness import TOLERANCE, Driver, mixed_schedule, random_prompt
from tests.tiny_models import VOCAB_SIZE, tiny_model

SEQUENCES = {seq: random_prompt(length, VOCAB_SIZE, seq) for seq, length in {5: 14, 9: 18, 2: 11}.items()}
ALL = {**compiled.cpu_options(), **compiled.LIBRARY_OPTIONS}
TWO_LAYERS: dict[str, Any] = {"num_hidden_layers": 2}  # whose weights may be exchanged
needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")


@pytest.fixture(scope="module")
def kept_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder with the compiled forward pass of a tiny Llama."""
    home = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home))
        model = from_module(tiny_model("llama", seed=1, **TWO_LAYERS))
        key = forward_key(model, ALL)
        compile_model(model)
        assert key and find(key), "it was kept"
        yield home


def refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("it is compiled again")

    monkeypatch.setattr(compiled, "_build", never)


def logits(model: LoadedModel, forward: Any) -> dict[Any, torch.Tensor]:
    driver = Driver(model, 4, 16)
    driver.runner.compiled = forward
    mixed_schedule(driver, SEQUENCES)
    return dict(driver.logits)


@pytest.mark.slow
@needs_compiler
def test_other_weights_are_served_by_the_same_code(kept_once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is traced again, and the logits are those of the present model, whose norms differ too."""
    refuses(monkeypatch)
    module = tiny_model("llama", seed=2, **TWO_LAYERS)
    with torch.no_grad():
        for norm in (parameter for parameter in module.parameters() if parameter.dim() == 1):
            norm.uniform_(0.5, 1.5)
    model = from_module(module)
    forward = compile_model(model)
    eager, fast = logits(model, None), logits(model, forward)
    assert fast.keys() == eager.keys()
    assert all((fast[key] - eager[key]).abs().max() <= TOLERANCE for key in eager)


@pytest.mark.slow
@needs_compiler
def test_a_library_has_every_function_that_torch_looks_up(kept_once: Path) -> None:
    """A missing one is a warning of four lines at each start, or an error."""
    header = Path(torch.__file__).parent / "include/torch/csrc/inductor/aoti_runner/model_container_runner.h"
    names = re.findall(r"decltype\(&(AOTInductor\w+)\)", header.read_text())
    (library,) = kept_once.rglob("many.so")
    loaded = ctypes.CDLL(str(library))
    assert len(names) > 10 and not [name for name in names if not hasattr(loaded, name)]


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("harm", ["a byte of the code", "weights exchanged"])
def test_damaged_or_wrong_code_is_compiled_again(
    kept_once: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    model = from_module(tiny_model("llama", seed=3, **TWO_LAYERS))
    key = forward_key(model, ALL)
    entry = find(key or "")
    assert key and entry
    name = "many.so" if harm == "a byte of the code" else "entry.json"
    before = (entry.folder / name).read_bytes()
    (entry.folder / name).rename(tmp_path / name)  # this process has it mapped: another file takes its place
    try:
        if name == "many.so":
            (entry.folder / name).write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        else:
            noted = json.loads(before)
            one = noted["facts"]["one"]
            first, second = [k for k, v in one.items() if "o_proj" in v.get("names", [""])[0]][:2]
            one[first], one[second] = one[second], one[first]
            (entry.folder / name).write_text(json.dumps(noted))
        with caplog.at_level(logging.WARNING, logger="engine"):
            assert compiled._load_cached(model, key) is None
        assert any("compiled again" in message for message in caplog.messages)
    finally:
        (tmp_path / name).rename(entry.folder / name)


def test_the_key_holds_what_decides_the_code_and_no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(**changes: Any) -> str | None:
        return forward_key(from_module(tiny_model("llama", **changes)), ALL)

    same = key(seed=1)
    assert same and same == key(seed=2)
    assert same != key(num_hidden_layers=1)
    assert same != forward_key(from_module(tiny_model("llama")), {**ALL, "compile_threads": 2})
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "1.0")
        assert key() != same, "another version"
    with monkeypatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: 77)
        assert key() != same
    model = from_module(tiny_model("llama"))
    model.module.model.layers[0].self_attn.scaling *= 2
    assert forward_key(model, ALL) not in (None, same), "what a module holds beside tensors is traced too"


def test_process_local_code_is_not_cached() -> None:
    model = from_module(tiny_model("llama"))
    hook = model.module.model.layers[0].register_forward_hook(lambda *_: None)
    assert forward_key(model, ALL) is None
    hook.remove()
    assert forward_key(model, ALL) is not None

    class Own(torch.nn.Linear):
        pass

    model.module.lm_head = Own(2, 2)
    assert forward_key(model, ALL) is None
    model = from_module(tiny_model("llama"))
    model.module.forward = lambda *_: None
    assert forward_key(model, ALL) is None
