"""The command line, one module for each command. Imports the model only when a command needs it."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence

from app import __version__
from app.cli.options import Parser, UserError
from app.cli.terminal import LineHandler, ShownFormatter, say
from app.ground.interrupts import raise_on_interrupt
from app.ground.working import working
from engine.system.cgroup import cores
from engine.system.host import processors

# In the order of the help; each is the module of its name.
COMMANDS = (
    "serve", "worker", "proxy", "replay", "attach", "top", "generate", "info", "doctor", "size", "simulate", "trace",
    "template", "prompts", "beside", "export", "lesson", "bench",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status: 0 done, 1 done with a finding (a damaged trace), 2 the user's mistake."""
    given = list(sys.argv[1:] if argv is None else argv)
    arguments = build_parser(given).parse_args(given)
    handler = LineHandler()
    handler.setFormatter(ShownFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("KVTHEATER_OWN_PROCESS", "1")  # engine/model/own_process.py; the package brings torch
    if cores() < len(processors()):  # a container's share of the processors, which torch does not know
        os.environ.setdefault("OMP_NUM_THREADS", str(cores()))
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch: large tensors in pages of 2 MiB, which are read faster
    working("")
    raise_on_interrupt()
    try:
        return int(arguments.run(arguments))
    except UserError as error:
        say(*f"kvtheater: {error}".split("\n"), to=sys.stderr)
        return 2
    except BrokenPipeError:  # `kvtheater … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit would fail again
        return 141


def build_parser(given: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the command line: of one that begins with a command only what that command takes, which is imported in
    half of the time of all.
    """
    parser = Parser(
        prog="kvtheater",
        description="A language model with a paged KV cache, step by step in a browser.",
        epilog=(
            "examples:\n"
            "  kvtheater serve                          the bundled model, on http://127.0.0.1:8765\n"
            "  kvtheater serve Qwen/Qwen3-0.6B --open   a model from the Hugging Face hub\n"
            "  kvtheater replay run.kvtrace --open      a recorded run in the page, without a model\n"
            "  kvtheater attach --events tcp://HOST:5557 --metrics http://HOST:8000/metrics\n"
            "                                           the KV cache of a running vLLM\n"
            "  kvtheater generate '床前明月光，'         text on standard output\n"
            "  kvtheater info                           model facts and KV bytes per token\n"
            "  kvtheater doctor                         what a bug report needs\n"
            "  kvtheater size gpt-3                     what a model costs, and which GPU holds it\n"
            "  kvtheater trace show run.kvtrace         what a recorded run did\n"
            "  kvtheater export run.kvtrace             the run as one HTML file, for readers without a server\n"
            "  kvtheater lesson list                    what can be learned\n"
            "  kvtheater bench list                     what can be measured"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kvtheater {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in given[:1] if given and given[0] in COMMANDS else COMMANDS:
        importlib.import_module(f"app.cli.{name}").add_parser(commands)
    return parser
