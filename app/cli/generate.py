"""`kvtheater generate`: a prompt's continuation on standard output, and its trace in a file."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from app.cli.loading import load
from app.cli.options import (
    UserError,
    add_command,
    add_engine_options,
    add_model_options,
    add_sampling_options,
    engine_config,
    sampling_params,
)
from app.engine_face import EngineLike
from app.messages import SubmittedPrompt
from app.settings import ServerSettings


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "generate",
        "continue a prompt and print the text",
        "  kvtheater generate '春江潮水连海平，'\n"
        "  kvtheater generate 'Once upon a time' --max-tokens 50 --temperature 0.8 --seed 7\n"
        "  kvtheater generate 'Once upon a time' --record run.kvtrace && kvtheater trace show run.kvtrace\n",
    )
    parser.add_argument("prompt", metavar="PROMPT")
    parser.add_argument("--model", default="bundled", help="folder or hub name (default: the bundled model)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the trace of the run, tensors included")
    parser.add_argument("--force", action="store_true", help="overwrite the file given to --record")
    add_sampling_options(parser)
    add_model_options(parser)
    add_engine_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Generate; what was recorded before an interruption stays."""
    sampling = sampling_params(arguments)
    record: Path | None = arguments.record
    if record and record.exists() and not arguments.force:
        raise UserError(f"{record} exists already; choose another name, or --force to overwrite it")
    model = load(arguments.model, arguments.dtype, arguments.device, ServerSettings())
    try:
        engine = model.build(engine_config(arguments), record)
    except OSError as error:
        raise UserError(f"cannot write {record}: {error.strerror or error}") from error
    except ValueError as error:  # ConfigError
        raise UserError(str(error)) from error
    try:
        if record is None:
            engine.stop_captures()  # nobody would ever see them
        try:
            (request,) = engine.submit([SubmittedPrompt(text=model.normalize(arguments.prompt))], sampling)
        except ValueError as error:  # RequestError
            raise UserError(str(error)) from error
        max_tokens = sampling.max_tokens or _most(engine, request.num_prompt_tokens)
        _stream(engine, max_tokens)
    finally:
        engine.close()
    return 0


def _most(engine: EngineLike, num_prompt_tokens: int) -> int:
    """How many tokens can come: as the record of the submission says."""
    for op in engine.log.record(0).ops:
        if (most := getattr(op, "max_tokens", None)) is not None:
            return int(most)
    return num_prompt_tokens


def _stream(engine: EngineLike, max_tokens: int) -> None:
    """Text to standard output as it comes; progress on standard error where that is a terminal of its own."""
    started = time.perf_counter()
    tokens = 0
    with _Progress(max_tokens) as progress:
        while engine.num_unfinished():
            for output in engine.step().outputs:
                tokens += 1
                sys.stdout.write(output.text)
            sys.stdout.flush()
            progress.show(tokens)
    sys.stdout.write("\n")
    sys.stdout.flush()
    seconds = time.perf_counter() - started
    if sys.stderr.isatty():
        print(f"{tokens} tokens in {seconds:.1f} s, {tokens / max(seconds, 1e-9):.1f} a second", file=sys.stderr)


class _Progress:
    """A bar with the time left. Silent when the text itself is running over the same terminal."""

    def __init__(self, total: int) -> None:
        self._bar: Any = None
        if sys.stderr.isatty() and not sys.stdout.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("tokens", total=total)

    def __enter__(self) -> _Progress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def show(self, done: int) -> None:
        if self._bar:
            self._bar.update(self._task, completed=done)
