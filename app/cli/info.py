"""`kvtheater info`: a model's facts, and the bytes that it caches per token."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any

from app import __version__
from app.cli.layer_bytes import cache_by_layer, not_served
from app.cli.loading import load
from app.cli.options import add_command, add_model_options
from app.cli.terminal import say
from app.ground.plain import to_json
from app.ground.settings import ServerSettings
from engine.accounting.shape import kv_shapes
from engine.trace.records import ModelFacts


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "info",
        "show a model's facts, its KV bytes per token, versions and device",
        "  kvtheater info\n  kvtheater info Qwen/Qwen3-0.6B --json\n  kvtheater info ./model.gguf\n",
    )
    parser.add_argument(
        "model",
        nargs="?",
        default="bundled",
        metavar="MODEL",
        help="folder, GGUF file or hub name (default: bundled)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_model_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the facts."""
    model = load(arguments.model, arguments.dtype, arguments.device, ServerSettings())
    facts, machine = model.facts, model.machine
    if arguments.json:
        values = {
            "version": __version__,
            "model": facts,
            "tokenizer": model.tokenizer_facts,
            "kv_bytes_per_token": model.kv_bytes_per_token,
            "stored_weights": model.stored,
            "machine": machine,
        }
        sys.stdout.write(to_json(values).decode() + "\n")
        return 0
    windows = sorted({w for w in facts.sliding_windows if w is not None})
    stored = [("weights", model.stored)] if model.stored else []
    missing = not_served(facts, model.dropped)
    shapes = kv_shapes(facts)
    kv_heads, head_dims = _distinct(shape[0] for shape in shapes), _distinct(shape[1] for shape in shapes)
    rows = [
        ("model", f"{facts.name} ({facts.architecture}, {facts.num_params:,} parameters, {_dtype(facts)})"),
        *stored,
        ("layers", f"{facts.num_layers}, hidden size {facts.hidden_size}"),
        ("heads", f"{facts.num_heads} query, {kv_heads} KV, dimension {head_dims}"),
        ("positions", f"{facts.max_position:,}" + (f", sliding windows {windows}" if windows else "")),
        ("vocabulary", f"{facts.vocab_size:,}"),
        ("cache", cache_by_layer(facts, model.kv_bytes_per_token)),
        *([("without", missing)] if missing else []),
        ("served", model.comparison()),
        ("device", f"{machine.device} ({machine.processor}, {machine.num_threads} threads)"),
        ("versions", ", ".join(f"{k} {v}" for k, v in {"kvtheater": __version__, **machine.versions}.items())),
    ]
    for name, text in rows:
        say(f"{name:<11}{text}")
    return 0


def _distinct(sizes: Iterable[int]) -> str:
    return " or ".join(map(str, dict.fromkeys(sizes)))


def _dtype(facts: ModelFacts) -> str:
    size = facts.bytes_per_weight
    return facts.dtype if size is None else f"{facts.dtype}, {size:.3g} bytes a weight"
