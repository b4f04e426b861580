"""Common clients work with the API: curl, our own example, and litellm where it is installed."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from app.ground.settings import ApiSettings
from engine.config import EngineConfig
from tests.conftest import ROOT
from tests.server.apis import Api, served_api

BLOCK = 8
STORY = "Once upon a time"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    config = EngineConfig(block_size=BLOCK, num_blocks=256, max_num_seqs=8, enforce_eager=True)
    with served_api(ApiSettings(), config=config) as found:
        yield found


def curl(api: Api, *arguments: str) -> str:
    program = shutil.which("curl")
    if program is None:
        pytest.skip("curl is not installed")
    command = [program, "--silent", "--show-error", "--no-buffer", "--max-time", "60", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=90).stdout


def test_curl_streams_and_gets_errors(api: Api) -> None:
    body = {"model": "bundled", "prompt": STORY, "max_tokens": 5, "temperature": 0, "stream": True}
    completions = f"{api.url}/v1/completions"
    lines = curl(api, completions, "--json", json.dumps(body | {"stream_options": {"include_usage": True}}))
    *events, last = [line.removeprefix("data: ") for line in lines.split("\n") if line]
    chunks = [json.loads(event) for event in events]
    whole = json.loads(curl(api, completions, "--json", json.dumps(body | {"stream": False})))
    assert last == "[DONE]" and chunks[-1]["usage"]["completion_tokens"] == 5
    assert "".join(c["choices"][0]["text"] for c in chunks[:-1]) == whole["choices"][0]["text"]
    refused = curl(api, completions, "--json", "{", "--write-out", "\n%{http_code}").splitlines()
    assert refused[-1] == "400" and json.loads(refused[0])["error"]["type"] == "invalid_request_error"


def test_the_example_of_an_agent_shows_what_the_order_of_its_prompt_costs(api: Api) -> None:
    """Five of six prompts hit the rules that all share; with a clock ahead of them only the text before the clock."""
    run = subprocess.run(
        [sys.executable, "examples/agent_prompt_order.py", "--base-url", f"{api.url}/v1"],
        capture_output=True, text=True, timeout=120, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    first, last = [int(cached) for cached in re.findall(r"(\d+) of \d+ prompt tokens came from the cache", run.stdout)]
    rules = re.search(r'RULES = """(.*?)"""', (ROOT / "examples/agent_prompt_order.py").read_text(), re.DOTALL)
    assert rules is not None
    shared = api.post("/tokenize", prompt=rules[1]).json()["count"] - 1  # the last one may go on in what follows
    assert shared > 10 * BLOCK, "a long beginning, or there is nothing to see"
    assert last >= 5 * (shared // BLOCK) * BLOCK and first <= 5 * 2 * BLOCK
    assert run.stdout.count(f"{api.url}/?theater=") == 12, "each with a link to its step"


def test_litellm_gets_the_apis_answer(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks the network for prices
    litellm: Any = pytest.importorskip("litellm")
    body: dict[str, Any] = {
        "model": "openai/bundled", "api_base": f"{api.url}/v1", "api_key": "litellm", "max_tokens": 6,
        "messages": [{"role": "user", "content": STORY}], "temperature": 0, "num_retries": 0,
    }  # fmt: skip
    whole = litellm.completion(**body)
    text = whole.choices[0].message.content
    assert text and whole.usage.completion_tokens == 6

    chunks = list(litellm.completion(**body, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
    assert [chunk.usage.completion_tokens for chunk in chunks if getattr(chunk, "usage", None)] == [6]
    assert litellm.text_completion(**{k: v for k, v in body.items() if k != "messages"}, prompt=STORY).choices[0].text

    async def several() -> list[Any]:
        return await asyncio.gather(*(litellm.acompletion(**body) for _ in range(8)))

    assert {answer.choices[0].message.content for answer in asyncio.run(several())} == {text}
    for more, error in (
        ({"max_tokens": 10**6}, litellm.BadRequestError),
        ({"model": "openai/nobody"}, litellm.NotFoundError),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "y"}]}, litellm.BadRequestError),
    ):
        with pytest.raises(error):
            litellm.completion(**{**body, **more})
