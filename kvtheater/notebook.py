"""Notebook display of a trace and of a watched run: the page as one file, in a frame."""

from __future__ import annotations

import html
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.trace.log import TraceReader
from kvtheater._own import hidden_by

HEIGHT = 860  # CSS pixels
# an origin of its own: the page cannot reach the notebook, nor what other pages store in this browser
SANDBOX = "allow-scripts allow-downloads"


class Trace(TraceReader):
    """A `.kvtrace` file, opened for reading; the last line of a notebook's cell shows it."""

    def _repr_html_(self) -> str:
        return _frame(self)


class WatchedRun:
    """Recorded run of `watch_generate`; the trace at `path` exists once the `with` has ended."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _repr_html_(self) -> str:
        if not self.path.exists():
            return f"<p>{html.escape(str(self.path))} is written when the <code>with</code> ends.</p>"
        with TraceReader(self.path) as log:
            return _frame(log)


def open_trace(path: str | Path) -> Trace:
    """Open a `.kvtrace` file: its header, records and arrays, and the state after each record.

    Raises:
        TraceFormatError: not a trace, another version, or the header itself is damaged.
        OSError: the file cannot be opened.
    """
    return Trace(path)


@contextmanager
def watch_generate(
    model: Any, tokenizer: Any = None, path: str | Path = "run.kvtrace", **options: Any
) -> Iterator[WatchedRun]:
    """Write a `.kvtrace` of every `model.generate` inside the `with` to `path`, when the `with` ends.

    Generation itself is not changed. `tokenizer`: the model's, for the tokens' texts; None leaves them out.
    `capture_bytes` (64 MiB): budget for captured Q, K, V and attention, spent on the first steps first.
    `num_logprobs` (5): alternatives recorded with each token.

    Raises:
        WatchError: another attention than sdpa and eager, another cache than DynamicCache, beams, or nothing generated.
    """
    from engine.observe.hf_recorder import watch_generate as watch  # imports torch, which opening a trace does not need

    with watch(model, tokenizer, path, **options):
        yield WatchedRun(Path(path))


def _frame(log: TraceReader) -> str:
    """Return the trace's page as a frame, or one sentence if the page cannot be made."""
    if hidden := hidden_by("app"):
        return f"<p>{html.escape(hidden)}</p>"
    from app.page.onefile import TooLarge, export_page  # the page's files, and only when something is shown

    try:
        page = export_page(log).decode()
    except TooLarge as error:
        return f"<p>{html.escape(str(error))}</p>"
    title = html.escape(f"KV Theater: {log.header.model.name}, {len(log)} records", quote=True)
    return (
        f'<iframe title="{title}" sandbox="{SANDBOX}" srcdoc="{html.escape(page, quote=True)}" '
        f'style="width: 100%; height: {HEIGHT}px; border: 0" loading="lazy"></iframe>'
    )
