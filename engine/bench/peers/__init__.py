"""Other engines that run the same jobs in a benchmark. A peer that cannot run gives a reason."""

from __future__ import annotations

from importlib import import_module

from engine.bench.peers.base import Peer

# name -> module and class; a peer's packages are imported only when it runs
PEERS = {
    "transformers-dynamic": "transformers_generate:DynamicCachePeer",
    "transformers-static": "transformers_generate:StaticCachePeer",
    "transformers-no-cache": "transformers_generate:NoCachePeer",
    "transformers-continuous": "transformers_continuous:ContinuousBatchingPeer",
    "simulation": "simulation:SimulationPeer",
    "onnxruntime-genai": "process:OnnxRuntimeGenaiPeer",
    "openvino-genai": "process:OpenvinoGenaiPeer",
    "llama.cpp": "process:LlamaCppPeer",
    "vllm": "process:VllmPeer",
}


def make_peer(name: str) -> Peer:
    """Return the peer of that name, not loaded yet."""
    module, _, attribute = PEERS[name].partition(":")
    peer: Peer = getattr(import_module(f"engine.bench.peers.{module}"), attribute)()
    return peer
