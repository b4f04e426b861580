"""`kvtheater size`: what a model costs under a load, and which GPU holds it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from app.cli.options import UserError, add_command
from app.plain import to_json
from app.scale_size import KV_DTYPES, WEIGHT_DTYPES, answer
from app.words import scale_words_of
from engine.accounting.derived import Derived
from engine.accounting.presets import gpu_presets

COUNTS = {"batch": 1, "context": 2048, "max-model-len": 8192, "shared-prefix": 0, "block-size": 16, "tp": 1}
NAMES = {"tp": "tensor_parallel"}  # of the endpoint, where they are unlike


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "size",
        "what a model costs under a load, and which GPU holds it",
        "  kvtheater size llama-3.1-8b --batch 16 --context 4096\n"
        "  kvtheater size llama-3.1-70b --tp 4 --gpu h100-80gb --explain\n",
    )
    parser.add_argument("model", metavar="MODEL", help="a model's id of engine/accounting/models.toml, as gpt-3")
    parser.add_argument("--gpu", choices=[gpu.id for gpu in gpu_presets()], help="only this GPU (default: all)")
    for name, count in COUNTS.items():
        parser.add_argument(f"--{name}", type=int, default=count, metavar="N", help=f"(default: {count})")
    parser.add_argument("--kv-dtype", choices=KV_DTYPES, default="float16", help="(default: float16)")
    parser.add_argument("--dtype", choices=WEIGHT_DTYPES, default="float16", help="of the weights (default: float16)")
    parser.add_argument("--explain", action="store_true", help="each number with its formula")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the sizes.

    Raises:
        UserError: no such model, or numbers that cannot be.
    """
    given = {NAMES.get(name, name.replace("-", "_")): getattr(arguments, name.replace("-", "_")) for name in COUNTS}
    asked = {"model": arguments.model, "kv_dtype": arguments.kv_dtype, "dtype": arguments.dtype}
    try:
        found = answer(asked | {name: str(count) for name, count in given.items()})
    except ValueError as error:
        raise UserError(str(error)) from error
    found["gpus"] = [gpu for gpu in found["gpus"] if arguments.gpu in (None, gpu["id"])]
    if arguments.json:
        sys.stdout.write(to_json({name: found[name] for name in ("model", "load", "sizes", "gpus")}).decode() + "\n")
        return 0
    texts = scale_words_of("en")["texts"]
    print(found["model"]["name"])
    _print(found["sizes"], texts, arguments.explain)
    for gpu in found["gpus"]:
        print(f"\n{gpu['name']}")
        _print(gpu["numbers"], texts, arguments.explain)
    return 0


def _print(numbers: list[Derived], texts: dict[str, str], explain: bool) -> None:
    for number in numbers:
        print(f"  {texts[f'scale.size.{number.id}']:<40}{_value(number):>20}")
        if explain:
            print(f"    {number.formula} = {number.with_numbers()}")


def _value(number: Derived) -> str:
    if number.unit == "B":
        return f"{number.value / 2**30:,.3f} GiB" if abs(number.value) >= 2**30 else f"{number.value:,} B"
    return f"{number.value:,.4g}" if number.unit == "1" else f"{number.value:,} {number.unit}"
