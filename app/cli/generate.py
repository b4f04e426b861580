"""`kvtheater generate`: print a prompt's continuation, and write a trace of the run."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    file_errors,
    sampling_params,
    user_errors,
)
from app.cli.terminal import progress_bar, say
from app.ground.settings import ServerSettings
from app.models.engine_face import EngineLike
from app.session.messages import SubmittedPrompt
from engine.trace.operations import Fork, Rank
from engine.trace.records import StepRecord


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "generate",
        "continue a prompt and print the text",
        "  kvtheater generate '春江潮水连海平，'\n"
        "  kvtheater generate 'Once upon a time' --max-tokens 50 --temperature 0.8 --seed 7\n"
        "  kvtheater generate '床前明月光，' --use-beam-search --beam-width 4 --n 2 --max-tokens 12\n"
        "  kvtheater generate 'Once upon a time' --record run.kvtrace && kvtheater trace show run.kvtrace\n",
    )
    parser.add_argument("prompt", metavar="PROMPT", help="the text to continue")
    parser.add_argument("--model", default="bundled", help="folder, GGUF file or hub name (default: the bundled model)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write a trace of the run, with its arrays")
    parser.add_argument("--force", action="store_true", help="overwrite the file given to --record")
    add_sampling_options(parser)
    add_model_options(parser)
    add_engine_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Generate. After an interruption, the trace has the records until then."""
    sampling = sampling_params(arguments)
    record: Path | None = arguments.record
    if record and record.exists() and not arguments.force:
        raise UserError(f"{record} exists already; choose another name, or --force to overwrite it")
    if engine_config(arguments).num_instances:
        raise UserError("kvtheater generate runs one instance; kvtheater serve runs several")
    model = load(arguments.model, arguments.dtype, arguments.device, ServerSettings())
    with user_errors(ValueError), file_errors("write", record):  # ConfigError
        engine = model.build(engine_config(arguments), record)
    try:
        if record is None:
            engine.stop_captures()  # the log is deleted unread
        with user_errors(ValueError):  # RequestError
            (request,) = engine.submit([SubmittedPrompt(text=model.normalize(arguments.prompt))], sampling)
        max_tokens = sampling.max_tokens or _max_tokens(engine, request.num_prompt_tokens)
        try:
            _generate(engine, max_tokens, sampling.num_sequences)
        except DiskFull as error:
            hint = f"{record} has the {len(engine.log)} earlier records" if record else "free space for temporary files"
            raise UserError(f"the log cannot be written: {error}; {hint}") from error
    finally:
        engine.close()
    return 0


def _max_tokens(engine: EngineLike, num_prompt_tokens: int) -> int:
    """Return the maximum number of generated tokens, from the submission's record."""
    for op in engine.log.record(0).ops:
        if (limit := getattr(op, "max_tokens", None)) is not None:
            return int(limit)
    return num_prompt_tokens


def _generate(engine: EngineLike, max_tokens: int, num_sequences: int) -> None:
    """Generate, and print the text: a single sequence while it is generated, several at the end, best first.

    Progress is shown on standard error if that is a terminal and standard output is not.
    """
    started = time.perf_counter()
    tokens = 0
    texts = Texts()
    with _progress(max_tokens * num_sequences) as progress:
        while engine.num_unfinished():
            try:
                record = engine.step()
                assert record is not None, "one engine"
            except OSError as error:  # from writing the log
                sys.stdout.write("\n")  # end the line of generated text
                raise DiskFull(error.strerror or error) from error
            texts.read(record)
            tokens += len(record.outputs)
            if num_sequences == 1:
                sys.stdout.write("".join(output.text for output in record.outputs))
                sys.stdout.flush()
            progress(tokens)
    if num_sequences == 1:
        sys.stdout.write("\n")
    for place, (score, text) in enumerate(texts.best(), 1):
        sys.stdout.write(f"[{place}] {score:.3f}\n{text}\n")
    sys.stdout.flush()
    seconds = time.perf_counter() - started
    if sys.stderr.isatty():
        say(f"{tokens} tokens in {seconds:.1f} s, {tokens / max(seconds, 1e-9):.1f} per second", to=sys.stderr)


class DiskFull(Exception):
    """The log could not be written."""


class Texts:
    """Texts of one request's sequences, collected from records."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._rank: Rank | None = None

    def read(self, record: StepRecord) -> None:
        """Read a step's record. A forked sequence begins with its parent's text before the step."""
        for op in record.ops:
            if isinstance(op, Fork):
                self._texts[op.seq_id] = self._texts.get(op.parent_seq_id, "")
            elif isinstance(op, Rank):
                self._rank = op
        for output in record.outputs:
            self._texts[output.seq_id] = self._texts.get(output.seq_id, "") + output.text

    def best(self) -> list[tuple[float, str]]:
        """Return score and text of the returned sequences, best first; [] before the request has finished."""
        if self._rank is None:
            return []
        ranked = zip(self._rank.scores, self._rank.seq_ids, strict=True)
        return [(score, self._texts[seq_id]) for score, seq_id in list(ranked)[: self._rank.num_returned]]


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that updates a progress bar; a no-op if the text is printed on the terminal."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with progress_bar(*columns) as bar:
        task = bar.add_task("tokens", total=total)
        yield lambda done: bar.update(task, completed=done)
