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
from app.cli.terminal import EscapingFormatter, LineHandler, say
from app.ground.interrupts import raise_on_interrupt
from app.ground.working import working
from engine.system.cgroup import cores
from engine.system.host import processors

# In the order of the help. Each command has a module of its name.
COMMANDS = (
    "serve", "worker", "proxy", "replay", "attach", "top", "generate", "info", "doctor", "size", "simulate", "trace",
    "template", "prompts", "beside", "export", "lesson", "bench",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Return its exit status: 0 success, 1 a finding (such as a damaged trace), 2 a user error."""
    argv = sys.argv[1:] if argv is None else argv
    arguments = build_parser(argv).parse_args(argv)
    handler = LineHandler()
    handler.setFormatter(EscapingFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("KVTHEATER_OWN_PROCESS", "1")  # engine/model/own_process.py, whose package imports torch
    if cores() < len(processors()):  # torch ignores a container's CPU quota
        os.environ.setdefault("OMP_NUM_THREADS", str(cores()))
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch allocates large tensors in 2 MiB pages: faster reads
    working("")
    raise_on_interrupt()
    try:
        return int(arguments.run(arguments))
    except UserError as error:
        say(*f"kvtheater: {error}".split("\n"), to=sys.stderr)
        return 2
    except BrokenPipeError:  # `kvtheater … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise the flush at exit fails again
        return 141


def build_parser(argv: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser. If `argv` begins with a command, only its module is imported, in half of the time of all."""
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
            "  kvtheater doctor                         facts for a bug report\n"
            "  kvtheater size gpt-3                     memory of a model, and the GPUs that hold it\n"
            "  kvtheater trace show run.kvtrace         the steps of a recorded run\n"
            "  kvtheater export run.kvtrace             the run as one HTML file, for readers without a server\n"
            "  kvtheater lesson list                    the lessons\n"
            "  kvtheater bench list                     the benchmark scenarios"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kvtheater {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in argv[:1] if argv and argv[0] in COMMANDS else COMMANDS:
        importlib.import_module(f"app.cli.{name}").add_parser(commands)
    return parser
