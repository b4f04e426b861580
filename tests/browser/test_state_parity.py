"""Python's reducer and the browser's reach the same state from the same bytes, record by record."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.trace.log import TraceReader
from tests.unit.engine.runs import CONFIGS, run

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not on the PATH")
@pytest.mark.parametrize("name", CONFIGS)
def test_the_browsers_state_equals_pythons_after_every_record(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    run(name, path).close()
    done = subprocess.run(
        ["node", ROOT / "tests/js/state_dump.mjs", path], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    with TraceReader(path) as reader:
        assert len(theirs) == len(reader)
        for index, state in enumerate(theirs):
            assert state == plain(reader.state_at(index)), f"record {index}"


def plain(value: Any) -> Any:
    """As JSON has it: bytes as lowercase hex, map keys as text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value
