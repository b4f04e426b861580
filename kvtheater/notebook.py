"""Notebook display of a trace and of a watched run, as the page in a frame."""

from __future__ import annotations

import html
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.trace.log import TraceReader
from kvtheater._own import hidden_by

HEIGHT = 860  # CSS pixels
# a separate origin, so that the page can access neither the notebook nor the browser storage of other pages
SANDBOX = "allow-scripts allow-downloads"


class Trace(TraceReader):
    """A `.kvtrace` file, opened for reading. A notebook displays it as the last expression of a cell."""

    def _repr_html_(self) -> str:
        return _frame(self)


class WatchedRun:
    """Recorded run of `watch_generate`. The trace at `path` is written when the `with` block ends."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _repr_html_(self) -> str:
        if not self.path.exists():
            return f"<p>{html.escape(str(self.path))} is written when the <code>with</code> ends.</p>"
        with TraceReader(self.path) as log:
            return _frame(log)


def open_trace(path: str | Path) -> Trace:
    """Open a `.kvtrace` file to read its header, records and arrays, and the state after each record.

    Raises:
        TraceFormatError: the file is not a trace, has another version, or has a damaged header.
        OSError: the file cannot be opened.
    """
    return Trace(path)


@contextmanager
def watch_generate(
    model: Any, tokenizer: Any = None, path: str | Path = "run.kvtrace", **options: Any
) -> Iterator[WatchedRun]:
    """Record every `model.generate` inside the `with` block to the `.kvtrace` file `path`, written when the block ends.

    Generation is not changed. `tokenizer`: tokenizer of the model, for the texts of tokens; None: no texts.
    `capture_bytes` (64 MiB): budget for captured Q, K, V and attention weights, spent on the first steps.
    `num_logprobs` (5): number of candidates recorded with each token.

    Raises:
        WatchError: attention is neither sdpa nor eager, the cache is no DynamicCache, beams, or nothing was generated.
    """
    from engine.observe.hf_recorder import watch_generate as watch  # lazy, because it imports torch

    with watch(model, tokenizer, path, **options):
        yield WatchedRun(Path(path))


def _frame(log: TraceReader) -> str:
    """Return the trace's page in a frame, or an error message."""
    if hidden := hidden_by("app"):
        return f"<p>{html.escape(hidden)}</p>"
    from app.page.onefile import TooLarge, export_page  # lazy, because it reads the page's files

    try:
        page = export_page(log).decode()
    except TooLarge as error:
        return f"<p>{html.escape(str(error))}</p>"
    title = html.escape(f"KV Theater: {log.header.model.name}, {len(log)} records", quote=True)
    return (
        f'<iframe title="{title}" sandbox="{SANDBOX}" srcdoc="{html.escape(page, quote=True)}" '
        f'style="width: 100%; height: {HEIGHT}px; border: 0" loading="lazy"></iframe>'
    )
