"""The API passes other tools: llm-comply, and Schemathesis on OpenAI's own schema."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.ground.settings import ANONYMOUS, ApiSettings, Policy
from tests.conftest import ROOT
from tests.server.apis import Api, served_api

PASSED = {"Streaming Response", "Streaming Usage", "Error Handling"}
# of the others, what they may object to: the bundled model has no tools, sees no pictures, and writes on and on
KNOWN = re.compile(
    r"finish_reason: expected 'stop', got 'length'|HTTP 400 \(expected \[200\]\)|response\.\w+ is (missing|empty)"
)


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with served_api(ApiSettings(default=Policy(name=ANONYMOUS, max_tokens=8))) as found:
        yield found


def test_llm_comply_objects_to_nothing_but_what_is_not_there(api: Api) -> None:
    program = Path(sys.executable).parent / "llm-comply"
    arguments = ["--format", "openai-chat", "-u", f"{api.url}/v1", "-k", "x", "-m", "bundled"]
    output = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120).stdout
    passed = set(re.findall(r"✓ (.+?) \(", output))
    objections = re.findall(r"└─ (?!⚠)(.+)", output)
    assert passed >= PASSED, output
    assert objections and all(KNOWN.match(one) for one in objections), output


def test_no_body_of_openais_schema_makes_it_fail(api: Api) -> None:
    """This sends 200 bodies; `python -m tests.load.api_schema URL 10000` sends more."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.load.api_schema", api.url, "200"],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=ROOT,
    )
    counts = [int(count) for count in re.findall(r"(\d+) generated, \1 passed", done.stdout)]
    assert done.returncode == 0 and len(counts) == 2 and all(count > 80 for count in counts), done.stdout[-4000:]
    assert api.post(prompt="Once", max_tokens=1).status_code == 200
