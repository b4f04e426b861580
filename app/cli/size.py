"""`kvtheater size`: the cost of a model under a load, and the GPUs that hold it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.cli.hub import prepare_hub
from app.cli.options import UserError, add_command, user_errors
from app.cli.terminal import say
from app.ground.plain import to_json
from app.page.words import scale_words_of
from app.scale.size import AUTO, KV_DTYPES, answer, own_presets
from engine.accounting.derived import Derived
from engine.accounting.impossible import ImpossibleInput
from engine.accounting.kv_shape import Architecture
from engine.accounting.mistakes import Mistake
from engine.accounting.presets import Presets, presets, read_presets
from engine.accounting.size import Load
from engine.accounting.weights import WEIGHT_DTYPES
from engine.trace.messages.words import seconds_text

COUNTS = {
    "batch": (1, "requests"), "context": (2048, "tokens per request"), "shared-prefix": (0, "tokens that all share"),
    "block-size": (16, "tokens per block"), "tp": (1, "GPUs that split each layer"),
    "encoder-tokens": (Load().encoder_tokens, "tokens that an encoder reads, in models that have one"),
    "max-num-batched-tokens": (Load().max_num_batched_tokens, "tokens per step"),
    "reserve-bytes": (Load().reserve_bytes, "memory left free"),
}  # fmt: skip
MAX_MODEL_LEN = 8192
RATES = {
    "arrivals": (Load().arrivals, "requests per second"),
    "gpu-memory-utilization": (Load().utilization, "share of the GPU's memory to use"),
}
NAMES = {"tp": "tensor_parallel", "gpu_memory_utilization": "utilization"}  # names of the endpoint that differ
PRINTED = ("model", "load", "sizes", "moved", "mistakes", "gpus", "links")


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "size",
        "compute the memory of a model under a load, and which GPUs hold it",
        "  kvtheater size llama-3.1-8b --batch 16 --context 4096\n"
        "  kvtheater size llama-3.1-70b --tp 4 --gpu h100-80gb --explain\n"
        "  kvtheater size ./my-model/config.json --kv-dtype fp8\n"
        "  kvtheater size opt-66b --context 512 --arrivals 10 --link infiniband-xdr\n",
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a preset such as gpt-3, a config.json or its folder, a GGUF file, or a hub name",
    )
    parser.add_argument("--gpu", metavar="ID", help="show only this GPU (default: all)")
    parser.add_argument(
        "--link", metavar="ID", help="show the transfer of a request's cache over this link (default: none)"
    )
    for name, (count, meaning) in COUNTS.items():
        parser.add_argument(f"--{name}", type=int, default=count, metavar="N", help=f"{meaning} (default: {count})")
    parser.add_argument(
        "--max-model-len",
        type=int,
        metavar="N",
        help=f"longest sequence (default: {MAX_MODEL_LEN}, or the context if it is longer)",
    )
    for name, (rate, meaning) in RATES.items():
        parser.add_argument(f"--{name}", type=float, default=rate, metavar="X", help=f"{meaning} (default: {rate:g})")
    parser.add_argument(
        "--kv-dtype", choices=KV_DTYPES, default=AUTO, help="dtype of the cache (default: the checkpoint's or float16)"
    )
    parser.add_argument(
        "--dtype", choices=WEIGHT_DTYPES, default="shipped", help="dtype of the weights (default: the checkpoint's)"
    )
    parser.add_argument("--presets", type=Path, metavar="FILE", help="TOML file of your own models, GPUs and links")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="read presets/*.toml of this folder too")
    parser.add_argument("--explain", action="store_true", help="print the formula of each number, and common mistakes")
    parser.add_argument("--json", action="store_true", help="print JSON, with the source of each figure")
    parser.set_defaults(run=run)


def check_presets(file: Path) -> None:
    """Raise UserError unless the file has valid presets."""
    with user_errors(ImpossibleInput):
        read_presets(file)


def run(arguments: argparse.Namespace) -> int:
    """Print the sizes.

    Raises:
        UserError: the model is unknown, or the numbers are impossible.
    """
    query = {"kv_dtype": arguments.kv_dtype, "dtype": arguments.dtype}
    query["max_model_len"] = str(arguments.max_model_len or max(MAX_MODEL_LEN, arguments.context))
    for name in (*COUNTS, *RATES):
        field = name.replace("-", "_")
        query[NAMES.get(field, field)] = str(getattr(arguments, field))
    with user_errors(ValueError):
        known = presets(own_presets(arguments.data_dir, arguments.presets))
        for name, choices in (("gpu", known.gpus), ("link", known.links)):
            _check(name, getattr(arguments, name), choices)
        model = _model(arguments.model, known)
        found = answer(query | ({} if model else {"model": arguments.model}), known, model)
    found["gpus"] = [gpu for gpu in found["gpus"] if arguments.gpu in (None, gpu["id"])]
    found["links"] = [link for link in found["links"] if arguments.json or arguments.link == link["id"]]
    if arguments.json:
        sys.stdout.write(to_json({name: found[name] for name in PRINTED}).decode() + "\n")
        return 0
    _print_all(found, scale_words_of("en")["texts"], arguments.explain)
    return 0


def _check(name: str, value: str | None, choices: Mapping[str, object]) -> None:
    if value is not None and value not in choices:
        raise UserError(f"--{name} {value!r} is unknown; use one of {', '.join(choices)}")


def _model(name: str, known: Presets) -> Architecture | None:
    """Return the model of a file, a folder or a hub name (`name` has a slash or exists); None for a preset's name."""
    if name in known.models or not ("/" in name or Path(name).exists()):
        return None
    prepare_hub(name)
    from engine.setup.unloaded_model import architecture_of  # imports torch

    return architecture_of(name)


def _print_all(found: dict[str, Any], texts: dict[str, str], explain: bool) -> None:
    say(found["model"]["name"])
    most, longest = found["model"]["max_position"], found["load"].max_model_len
    if 0 < most < longest:
        say(texts["scale.size.beyond"].format(name=found["model"]["name"], most=f"{most:,}", asked=f"{longest:,}"))
    if found["model"]["unread"]:
        say(texts["scale.size.unread"].format(fields="; ".join(found["model"]["unread"])))
    mistakes = found["mistakes"] if explain else []
    _print(found["sizes"], texts, explain, mistakes)
    for gpu in found["gpus"]:
        say("", gpu["name"])
        _print(gpu["numbers"], texts, explain)
    for link in found["links"]:
        say("", link["name"])
        _print([*found["moved"], *link["numbers"]], texts, explain)
    if explain:
        _print_sources(found)


def _print(numbers: list[Derived], texts: dict[str, str], explain: bool, mistakes: list[Mistake] | None = None) -> None:
    for number in numbers:
        say(f"  {_title(number.id, texts):<48}{_value(number):>20}")
        if not explain:
            continue
        say(f"    {number.formula} = {number.with_numbers()}")
        for one in mistakes or []:
            if one.right == number.id:
                text = texts[f"scale.size.mistake.{one.kind}"]
                say(f"    not {_value(one.wrong)} ({one.wrong.formula} = {one.wrong.with_numbers()}): {text}")


def _print_sources(found: dict[str, Any]) -> None:
    """Print the sources of the printed figures of the model, the GPUs and the links."""
    for one in (found["model"], *found["gpus"], *found["links"]):
        for source in one["sources"]:
            dated = f" ({source.dated})" if source.dated else ""
            checked = f"checked {source.checked}: {source.against}" if source.checked else "not checked"
            say("", f"{one['name']}, {', '.join(source.figures)}:", f"  {source.says}{dated}; {checked}")


def _title(id: str, texts: dict[str, str]) -> str:
    """Return the title of a number. Ids that differ only in a final digit have the same title."""
    return texts[f"scale.size.{id.rstrip('23456789')}"]


def _value(number: Derived) -> str:
    if number.unit == "B":
        return f"{number.value / 2**30:,.3f} GiB" if abs(number.value) >= 2**30 else f"{number.value:,} B"
    if number.unit == "s":
        return f"{1000 * number.value:,.4g} ms" if abs(number.value) < 1 else seconds_text(number.value, " ")
    if number.unit in ("B/s", "bit/s"):
        return f"{number.value / 1e9:,.2f} G{number.unit}"
    return f"{number.value:,.4g}" if number.unit == "1" else f"{number.value:,} {number.unit}"
