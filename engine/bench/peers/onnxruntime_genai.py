"""onnxruntime-genai: the model as an ONNX graph with fused attention, its keys and values in one buffer."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from engine.bench.measurement import Measurement, RequestTimes
from engine.bench.models import Models
from engine.bench.peers.base import Peer, refuse_arrivals, refuse_sampling
from engine.bench.workload import Ask
from engine.config import EngineConfig, SamplingParams

PRECISION = {"float32": "fp32", "float16": "fp16"}
NEVER = 1  # a control token or a single byte; if a model chose it, the comparison of tokens would show it


class OnnxRuntimeGenaiPeer(Peer):
    """Exports the weights once with its own model builder, then serves one batch at a time."""

    package: ClassVar[str] = "onnxruntime-genai"
    module: ClassVar[str] = "onnxruntime_genai"

    def load(self, models: Models, model: str, dtype: str) -> None:
        import onnxruntime_genai as og
        from onnxruntime_genai.models.builder import create_model, parse_extra_options

        self._og: Any = og
        self._folder = tempfile.TemporaryDirectory(prefix="kvtheater-ort-")
        target = Path(self._folder.name)
        # what its builder is told: name, source, target, precision, device, cache
        where = ("", models.source(model), str(target / "model"), PRECISION[dtype], "cpu", str(target / "cache"))
        silence = io.StringIO()  # it reports every layer
        with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
            create_model(*where, **parse_extra_options(*where, []))
        _never_end(target / "model" / "genai_config.json")
        self._model: Any = og.Model(str(target / "model"))

    def run(self, asks: list[Ask], sampling: SamplingParams, config: EngineConfig) -> Measurement:
        """One batch, padded to one length; it runs until its longest output is done, of the others the rest is cut."""
        refuse_arrivals(asks, "this peer")
        refuse_sampling(sampling, "this peer")
        lengths = [ask.output_tokens for ask in asks]
        width = max(len(ask.prompt) for ask in asks)
        prompts = np.zeros((len(asks), width), dtype=np.int32)  # padded on the right: it masks by the pad token
        for row, ask in enumerate(asks):
            prompts[row, : len(ask.prompt)] = ask.prompt
        params = self._og.GeneratorParams(self._model)
        length = width + max(lengths)
        params.set_search_options(do_sample=False, batch_size=len(asks), max_length=length, min_length=length)
        began = time.perf_counter()
        generator = self._og.Generator(self._model, params)
        generator.append_tokens(prompts)
        ticks: list[float] = []
        outputs: list[list[int]] = [[] for _ in asks]
        for _ in range(max(lengths)):
            generator.generate_next_token()
            ticks.append(time.perf_counter() - began)
            for row, token in enumerate(generator.get_next_tokens()):
                outputs[row].append(int(token))
        seconds = time.perf_counter() - began
        return Measurement(
            seconds=seconds,
            requests=[RequestTimes(0.0, ticks[:n], ask.late) for ask, n in zip(asks, lengths, strict=True)],
            outputs=[[row[:n]] for row, n in zip(outputs, lengths, strict=True)],
        )

    def close(self) -> None:
        del self._model
        self._folder.cleanup()


def _never_end(path: Path) -> None:
    """As with ignore_eos, every request runs to its length. The library needs an end token; `min_length` forbids it."""
    config = json.loads(path.read_text(encoding="utf-8"))
    config["model"]["eos_token_id"] = NEVER
    path.write_text(json.dumps(config), encoding="utf-8")
