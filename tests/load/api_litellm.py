"""Check of litellm against the API: whole answers, streams, several clients at once, and errors as its own exceptions.

Usage: python -m tests.load.api_litellm URL [--environment FOLDER]
Where litellm is not installed, it is installed into an environment of its own in FOLDER.
"""

import argparse
import asyncio
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.load.environments import programs

MESSAGES = [{"role": "user", "content": "Once upon a time"}]


def look(url: str) -> None:
    """Raises AssertionError, or what litellm raises."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks the network for prices
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    body: dict[str, Any] = {
        "model": "openai/bundled",
        "api_base": f"{url}/v1",
        "api_key": "litellm",
        "messages": MESSAGES,
        "max_tokens": 6,
        "temperature": 0,
        "num_retries": 0,
    }
    whole = litellm.completion(**body)
    text = whole.choices[0].message.content
    assert text and whole.usage.completion_tokens == 6, whole
    again = litellm.completion(**body)
    assert again.choices[0].message.content == text, "the same question has the same answer"

    chunks = list(litellm.completion(**body, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
    assert [chunk.usage.completion_tokens for chunk in chunks if getattr(chunk, "usage", None)] == [6]
    completed = litellm.text_completion(**{k: v for k, v in body.items() if k != "messages"}, prompt="Once")
    assert completed.choices[0].text

    async def several() -> list[Any]:
        return await asyncio.gather(*(litellm.acompletion(**body) for _ in range(8)))

    assert {answer.choices[0].message.content for answer in asyncio.run(several())} == {text}
    for more, error in (
        ({"max_tokens": 10**6}, litellm.BadRequestError),
        ({"model": "openai/nobody"}, litellm.NotFoundError),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "y"}]}, litellm.BadRequestError),
    ):
        try:
            litellm.completion(**{**body, **more})
        except error:
            continue
        raise AssertionError(f"{more} was not refused")
    print("litellm: whole answers, streams, eight at once and refusals are what the API says")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--environment", type=Path, default=Path(tempfile.gettempdir()) / "kvtheater-litellm")
    arguments = parser.parse_args()
    if importlib.util.find_spec("litellm") is not None:
        look(arguments.url)
        return 0
    python = programs(arguments.environment, "litellm") / "python"
    return subprocess.run([str(python), "-m", __spec__.name, arguments.url], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
