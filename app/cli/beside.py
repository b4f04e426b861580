"""`kvtheater beside`: the same requests through our engine and through vLLM, step by step."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.options import UserError, add_command, add_engine_options, add_model_options, engine_config
from app.cli.reading import open_trace
from app.cli.terminal import say, say_json
from engine.trace.compare import Comparison, OpDifference, compare
from engine.trace.messages import Voice
from engine.trace.operations import Op

if TYPE_CHECKING:
    from engine.lab.beside import Answer

OURS, THEIRS = "ours.kvtrace", "vllm.kvtrace"
COUNTED = ("num_steps", "computed_tokens", "hit_tokens", "evictions", "preemptions", "output_tokens")


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "beside",
        "run the same requests with this engine and with vLLM; exit status 1 if an operation differs",
        "  kvtheater beside requests.jsonl --python vllm-env/bin/python --num-blocks 24 --block-size 32 -o both\n"
        "  kvtheater replay both            both runs in the page; Compare shows them side by side\n\n"
        """a line of the file: {"prompt": "Once upon a time", "max_tokens": 40}; optional keys: "priority",\n"""
        """  "at_step" (arrives before that step), "ignore_eos", "request_id"; a prompt may be token ids\n"""
        "on a GPU each engine takes half of the memory unless --gpu-memory-utilization is set\n",
    )
    parser.add_argument("requests", type=Path, metavar="REQUESTS", help="file of requests as JSON lines")
    parser.add_argument(
        "--python", type=Path, required=True, metavar="PATH", help="interpreter of the environment that has vLLM"
    )
    parser.add_argument("--out", "-o", type=Path, required=True, metavar="DIR", help=f"folder for {OURS} and {THEIRS}")
    parser.add_argument("--model", default="bundled", help="folder or hub name (default: the bundled model)")
    parser.add_argument("--force", action="store_true", help="overwrite the traces in --out")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_model_options(parser)
    add_engine_options(parser)
    parser.set_defaults(run=run, gpu_memory_utilization=0.5)  # two engines may share a GPU


def run(arguments: argparse.Namespace) -> int:
    """Serve the requests on both engines, compare, and print the result."""
    from engine.lab.beside import explicit_config, requests_in, serve_here, serve_vllm
    from engine.model.loader import load_model

    folder: Path = arguments.out
    paths = [folder / OURS, folder / THEIRS]
    if not arguments.force and any(path.exists() for path in paths):
        raise UserError(f"{folder} has {OURS} or {THEIRS} already; choose another folder, or --force to overwrite them")
    try:
        requests = requests_in(arguments.requests)
        folder.mkdir(parents=True, exist_ok=True)
        model = load_model(arguments.model, arguments.dtype, arguments.device)
        config = explicit_config(engine_config(arguments), model)
        answer = serve_vllm(arguments.python, model, config, requests, paths[1], arguments.gpu_memory_utilization)
        serve_here(model, config, requests, paths[0])
    except OSError as error:
        raise UserError(f"{error.filename or folder}: {error.strerror or error}") from error
    except ValueError as error:  # BesideError, ModelError, ConfigError
        raise UserError(str(error)) from error
    with open_trace(paths[0]) as one, open_trace(paths[1]) as two:
        found = compare(one, two)
    if arguments.json:
        say_json(
            {"vllm": answer.vllm, "ended": answer.ended, "equal_steps": equal_steps(found), "first_op": found.first_op}
        )
    else:
        _print(found, answer, folder)
    return 1 if found.first_op or answer.ended else 0


def equal_steps(found: Comparison) -> int:
    """Return the number of complete steps before the first operation that differs."""
    first = found.first_op
    if first is None:
        return found.a.totals.num_steps
    is_step = first.kind_a == "step"
    return max((first.step_a if first.step_a is not None else found.a.totals.num_steps) - is_step, 0)


def _print(found: Comparison, answer: Answer, folder: Path) -> None:
    steps, total = equal_steps(found), found.a.totals.num_steps
    if found.first_op is None:
        say(f"all {total} steps are equal: scheduling, blocks, hits, evictions and preemptions")
    else:
        say(f"{steps} of {total} steps are equal; then", *_difference_lines(found.first_op, answer))
    if found.first_token is not None:
        say(f"first token that differs: {found.first_token.request_id}, position {found.first_token.position}")
    if answer.ended:
        say(answer.ended)
    say("", f"{'':<16} {'ours':>10} {f'vLLM {answer.vllm}':>12}")
    for name in COUNTED:
        say(f"{name:<16} {getattr(found.a.totals, name):>10,} {getattr(found.b.totals, name):>12,}")
    say("", f"kvtheater replay {folder} opens both; Compare shows them side by side")


def _difference_lines(first: OpDifference, answer: Answer) -> list[str]:
    """Return each engine's operation, in words and in numbers."""
    voice = Voice("en", name=lambda seq_id: f"sequence {seq_id}", first_record=0, thin_space=" ")
    return [
        f"  {name:<12} record {first.record}, operation {first.op}: {_words(voice, op)}"
        for name, op in (("ours", first.a), (f"vLLM {answer.vllm}", first.b))
    ]


def _words(voice: Voice, op: Op | None) -> str:
    return (
        "nothing more in this record" if op is None else f"{op.__struct_config__.tag}: {voice.render(op, None, 'long')}"
    )
