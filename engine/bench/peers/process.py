"""Peer in a separate process, in a virtual environment with its packages.

`python -m tools.peer_environments FOLDER` creates an environment per package, and KVTHEATER_PEERS=FOLDER selects the
folder. Without it, a peer runs on this Python if its package is installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from engine.bench.measurement import Measurement, RequestTimes
from engine.bench.models import Models
from engine.bench.peers.base import Peer, PeerError, refuse_arrivals, refuse_sampling
from engine.bench.workload import WorkloadRequest
from engine.config import EngineConfig, SamplingParams
from engine.system.host import child_environment

ENVIRONMENTS = "KVTHEATER_PEERS"


class ProcessPeer(Peer):
    """Client of a `foreign.serving` process."""

    program: ClassVar[str]  # module that the process runs

    _process: subprocess.Popen[str] | None = None
    _version = ""

    def interpreter(self) -> str | None:
        """Return the Python interpreter that has the package, or None."""
        own = Path(os.environ.get(ENVIRONMENTS, "")) / self.package / "bin" / "python"
        if os.environ.get(ENVIRONMENTS) and own.exists():
            return str(own)
        return sys.executable if find_spec(self.module) else None

    def unavailable(self) -> str | None:
        if self.interpreter():
            return None
        return f"{self.package} is not installed (python -m tools.peer_environments FOLDER, then {ENVIRONMENTS}=FOLDER)"

    def version(self) -> str:
        return self._version or super().version()

    def load(self, models: Models, model: str, dtype: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kvtheater-peer-")
        self._process = subprocess.Popen(
            [str(self.interpreter()), "-m", self.program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # some libraries report every layer
            text=True,
            encoding="utf-8",
            env=child_environment(),
            cwd=self._folder.name,
            process_group=0,  # Ctrl-C must not reach it
        )
        job = {"source": str(Path(models.source(model)).resolve()), "dtype": dtype, "folder": self._folder.name}
        self._version = self._call(job)["version"]

    def run(self, requests: list[WorkloadRequest], sampling: SamplingParams, config: EngineConfig) -> Measurement:
        """Run the requests. Times are measured by the peer and exclude the communication with it."""
        refuse_arrivals(requests, "this peer")
        refuse_sampling(sampling, "this peer")
        num_tokens = sum(len(request.prompt) + request.output_tokens for request in requests)
        found = self._call(
            {
                "prompts": [request.prompt for request in requests],
                "lengths": [request.output_tokens for request in requests],
                "num_slots": (config.num_blocks or 0) * config.block_size or num_tokens,
                "max_num_seqs": config.max_num_seqs,
                "max_num_batched_tokens": config.max_num_batched_tokens,
                "prompt_logprobs": sampling.prompt_logprobs is not None,
            }
        )
        return Measurement(
            seconds=found["seconds"],
            requests=[
                RequestTimes(0.0, ticks, request.late) for request, ticks in zip(requests, found["times"], strict=True)
            ],
            outputs=[[output] for output in found["outputs"]],
            resident_bytes=found["resident_bytes"],
            peer_logprobs=found.get("prompt_logprobs", []),
        )

    def close(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process = None
        self._folder.cleanup()

    def _call(self, job: dict[str, Any]) -> dict[str, Any]:
        assert self._process and self._process.stdin and self._process.stdout
        try:
            print(json.dumps(job), file=self._process.stdin, flush=True)
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            raise PeerError(f"{self.package} ended during its run") from None
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer


class OnnxRuntimeGenaiPeer(ProcessPeer):
    """ONNX Runtime GenAI, with static batches."""

    package: ClassVar[str] = "onnxruntime-genai"
    module: ClassVar[str] = "onnxruntime_genai"
    program: ClassVar[str] = "engine.bench.peers.foreign.onnxruntime"


class OpenvinoGenaiPeer(ProcessPeer):
    """OpenVINO GenAI, with continuous batching."""

    package: ClassVar[str] = "openvino-genai"
    module: ClassVar[str] = "openvino_genai"
    program: ClassVar[str] = "engine.bench.peers.foreign.openvino"


class LlamaCppPeer(ProcessPeer):
    """llama.cpp, with its own quantized weights if the engine's are quantized."""

    package: ClassVar[str] = "cyllama"
    module: ClassVar[str] = "cyllama"
    program: ClassVar[str] = "engine.bench.peers.foreign.llama_cpp"


class VllmPeer(ProcessPeer):
    """vLLM, with continuous batching."""

    package: ClassVar[str] = "vllm"
    module: ClassVar[str] = "vllm"
    program: ClassVar[str] = "engine.bench.peers.foreign.vllm_engine"
