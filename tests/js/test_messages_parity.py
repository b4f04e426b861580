"""Python and the page describe every operation of a log in the same words, in every register and language."""

import json
from pathlib import Path
from typing import get_args

import pytest

from engine.trace.log import TraceReader
from engine.trace.messages import Context, Register, Voice
from tests.js.node_run import node_output

ROOT = Path(__file__).parents[2]
TRACES = [
    path for folder in ("tests/golden", "static/recordings", "tests/js/museum")
    for path in sorted((ROOT / folder).glob("*.kvtrace"))
]  # fmt: skip


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_the_page_says_what_python_says(path: Path) -> None:
    output = node_output("messages_dump.mjs", path)
    voices = [Voice(language) for language in ("en", "zh")]
    with TraceReader(path) as log:
        for index, line in enumerate(output.splitlines(), start=0):
            record = log.record(index)
            contexts = [Context(header=log.header, record=record, index=place) for place in range(len(record.ops))]
            assert json.loads(line) == [
                [voice.render(op, context, register) for voice in voices for register in get_args(Register)]
                for op, context in zip(record.ops, contexts, strict=True)
            ], f"record {index}"
        assert index + 1 == len(log)
