"""Twenty architectures that people download: from a folder with config.json to the page and the exported file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from playwright.sync_api import ViewportSize, expect

from engine.trace import codec
from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.records import Capture
from engine.trace.residual import ResidualStream
from tests import hybrid_types
from tests.browser.contexts import ReservedContexts
from tests.causal_types import causal_config, causal_model
from tests.own_server import own_server
from tests.server.conftest import Client, wait_for
from tests.tiny_models import tiny_tokenizer

# public name: model type of its configuration
ARCHITECTURES = {
    "DeepSeek-V2-Lite": "deepseek_v2",
    "DeepSeek-V3": "deepseek_v3",
    "Falcon-H1-0.5B": "falcon_h1",
    "GLM-4.7-Flash": "glm4_moe_lite",
    "Gemma-3-1B": "gemma3_text",
    "Gemma-4-E2B": "gemma4_text",
    "Granite-4.0-H-Micro": "granitemoehybrid",
    "Kimi-Linear-48B": "kimi_linear",
    "LFM2-1.2B": "lfm2",
    "Llama-3.2-1B": "llama",
    "MiniCPM3-4B": "minicpm3",
    "Ministral-3-3B": "ministral3",
    "OLMo-2-1B": "olmo2",
    "Phi-4-mini": "phi3",
    "Qwen3-0.6B": "qwen3",
    "Qwen3-30B-A3B": "qwen3_moe",
    "Qwen3-Next-80B-A3B": "qwen3_next",
    "Qwen3.5-0.8B": "qwen3_5_text",
    "SmolLM3-3B": "smollm3",
    "gpt-oss-20b": "gpt_oss",
}
STATES = {"falcon_h1", "granitemoehybrid", "kimi_linear", "lfm2", "qwen3_next", "qwen3_5_text"}
TEXT, STEPS = "the moon over the sea", 5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start `kvtheater serve` over small random models of all of them; each is loaded on first use."""
    folder = tmp_path_factory.mktemp("models")
    for name, model_type in ARCHITECTURES.items():
        own = hybrid_types.SERVED.get(model_type, {})
        causal_model(causal_config(model_type, **own)).save_pretrained(folder / name)
        tiny_tokenizer().save_pretrained(folder / name)
    models = [str(folder / name) for name in ARCHITECTURES]
    settings = ["--data-dir", str(folder / "data"), "--max-theaters", "40", "--enforce-eager"]
    with own_server(*models, *settings) as url:
        yield url


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_from_a_folder_to_the_exported_file(
    name: str, server: str, reserved_contexts: ReservedContexts, tmp_path: Path
) -> None:
    viewer, path = Client(server), tmp_path / "run.kvtrace"
    theater = viewer.do("create", model=name, config={"block_size": 4, "num_blocks": 64})["theater"]
    sampling = {"max_tokens": STEPS + 1, "ignore_eos": True}
    viewer.do("submit", theater=theater, prompts=[{"text": TEXT}], sampling=sampling)
    viewer.do("prefill", theater=theater)
    viewer.do("step", theater=theater, count=STEPS)
    wait_for(lambda: len(viewer.records()) == 2 + STEPS)
    capture = codec.decode(viewer.batches[-1]["captures"][-1], Capture)

    message = {"theater": theater, "seq_id": 0, "layer": capture.layers[0].layer, "heads": [0], "residual": 1}
    if ARCHITECTURES[name] in STATES:
        assert "recurrent states" in viewer.refused("recompute", **message)["message"]
    else:
        stream = codec.decode(viewer.do("recompute", **message)["residual"]["stream"], ResidualStream)
        # Gemma 4 adds more than the two blocks to its residual stream
        assert len(stream.lens) == len(capture.layers) + 1 and ("apart" in stream.missing) == ("Gemma-4" in name)

    path.write_bytes(requests.get(f"{server}/api/theaters/{theater}/trace").content)
    assert [str(finding) for finding in check(path)] == []
    with TraceReader(path) as log:
        header = log.header
    assert [layer.layer for layer in capture.layers] == list(range(header.model.num_layers))
    assert any(group.state_bytes for group in header.block_groups) == (ARCHITECTURES[name] in STATES)
    page = requests.get(f"{server}/api/theaters/{theater}/export.html")
    assert page.ok and page.text.startswith("<!doctype html>")

    shown, wrong = reserved_contexts.page(server, ViewportSize(width=1366, height=768), {}), list[str]()
    shown.on("pageerror", lambda error: wrong.append(str(error)))
    shown.goto(f"{server}/?theater={theater}&distance=bench")
    expect(shown.locator("html")).to_have_attribute("data-painted", str(1 + STEPS))
    expect(shown.locator(".facts")).to_contain_text(f"{header.model.num_heads} query heads")
    assert wrong == []
    viewer.io.disconnect()
