"""The example program in docs/reference/trace-format.md writes a valid trace."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.trace.check import check
from engine.trace.log import TraceReader
from tests.conftest import ROOT

DOC = (ROOT / "docs/reference/trace-format.md").read_text(encoding="utf-8")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (program,) = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
    assert set(re.findall(r"^import (\w+)", program, re.MULTILINE)) == {"struct", "zlib", "msgpack"}
    assert "from " not in program
    monkeypatch.chdir(tmp_path)
    return str(program)


def run(program: str) -> list[str]:
    names: dict[str, Any] = {}
    exec(program, names)
    return [str(finding) for finding in check("mine.kvtrace")]


def test_the_example_program_writes_a_valid_trace(program: str) -> None:
    before = set(sys.modules)
    assert run(program) == []
    assert not {name for name in set(sys.modules) - before if name.startswith(("engine", "app"))}
    with TraceReader("mine.kvtrace") as reader:
        state = reader.state_at(2)
        assert state.free_queues[0] == [1, 2, 3, 0] and state.blocks[0].token_ids == [97, 98]
        assert state.sequences[0].token_ids == [97, 98, 99, 100] and state.finished == [0]


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ("memory(2, 0, 3)", "memory(2, 0, 4)", "memory.tokens_held is 4, but the operations make it 3"),
        ('"block_id": 1, "logical": 1', '"block_id": 2, "logical": 1', "block 2 is not the head of the free queue"),
        (
            '"start": 0, "num_tokens": 3',
            '"start": 0, "num_tokens": 2',
            "3 tokens are computed, but the operation writes 2",
        ),
        (
            '"kind": "abort",\n    "step": 1',
            '"kind": "abort",\n    "step": 2',
            "but must be 1 in this record of kind abort",
        ),
        ('"phase": "prefill",', "", "Object missing required field `phase`"),
        ("zlib.crc32(payload)", "zlib.adler32(payload)", "fails its checksum"),
    ],
)
def test_mistakes_in_the_example_program_are_found(program: str, right: str, wrong: str, expected: str) -> None:
    assert program.count(right) == 1
    findings = run(program.replace(right, wrong))
    assert any(expected in finding for finding in findings), findings
