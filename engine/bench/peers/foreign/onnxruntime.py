"""onnxruntime-genai: the model as an ONNX graph with fused attention, keys and values in one buffer.

The model builder exports the weights once. The library serves one batch at a time, padded to one length. A batch runs
until its longest output is complete; the other outputs are truncated to their length.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from engine.bench.peers.foreign.serving import Job, serve
from engine.system.host import child_environment

PRECISION = {"float32": "fp32", "float16": "fp16"}
NEVER = 1  # a control token or single byte, not expected in outputs; the comparison of tokens detects it


def load(source: str, dtype: str, folder: str) -> tuple[str, Callable[[Job], dict[str, Any]]]:
    """Load for `serve`."""
    import onnxruntime_genai as og

    # export in a separate process, so that its memory is not measured
    command = [sys.executable, "-m", str(__spec__.name), source, PRECISION[dtype], folder]
    done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError("its exporter failed: " + done.stderr.strip().rpartition("\n")[2])
    model = og.Model(str(Path(folder) / "model"))
    return f"onnxruntime-genai {version('onnxruntime-genai')}", lambda job: _run(og, model, job)


def export(source: str, precision: str, folder: str) -> None:
    """Write the graph and its weights to `folder`/model."""
    from onnxruntime_genai.models.builder import create_model, parse_extra_options

    # arguments of its builder: name, source, target, precision, device, cache
    where = ("", source, str(Path(folder) / "model"), precision, "cpu", str(Path(folder) / "cache"))
    create_model(*where, **parse_extra_options(*where, []))
    _never_end(Path(folder) / "model" / "genai_config.json")


def _run(og: Any, model: Any, job: Job) -> dict[str, Any]:
    import numpy as np

    lengths, width = job["lengths"], max(map(len, job["prompts"]))
    prompts = np.zeros((len(lengths), width), dtype=np.int32)  # padded on the right; masked by the pad token
    for row, prompt in enumerate(job["prompts"]):
        prompts[row, : len(prompt)] = prompt
    params = og.GeneratorParams(model)
    length = width + max(lengths)
    params.set_search_options(do_sample=False, batch_size=len(lengths), max_length=length, min_length=length)
    began = time.perf_counter()
    generator = og.Generator(model, params)
    generator.append_tokens(prompts)
    ticks: list[float] = []
    outputs: list[list[int]] = [[] for _ in lengths]
    for _ in range(max(lengths)):
        generator.generate_next_token()
        ticks.append(time.perf_counter() - began)
        for row, token in enumerate(generator.get_next_tokens()):
            outputs[row].append(int(token))
    return {
        "seconds": time.perf_counter() - began,
        "times": [ticks[:n] for n in lengths],
        "outputs": [row[:n] for row, n in zip(outputs, lengths, strict=True)],
    }


def _never_end(path: Path) -> None:
    """Set an end token, which the library requires; `min_length` prevents its effect."""
    config = json.loads(path.read_text(encoding="utf-8"))
    config["model"]["eos_token_id"] = NEVER
    path.write_text(json.dumps(config), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        export(*sys.argv[1:])
    else:
        serve(load)
