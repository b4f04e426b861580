"""Tool calls and reasoning of each family, through the engine, in the shapes of all three APIs."""

import json
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.scripted_model import TEMPLATE, hermes
from tests.server.apis import Api
from tests.server.scripted import PATH, scripted_api

TOOL = {"name": "read", "description": "Reads a file."}
FAMILIES: dict[str, tuple[list[str], list[str], str]] = {  # what is generated, special tokens, a word of the template
    "qwen": (["<think>", "\nHm.\n", "</think>", "\n\nI look.\n", *hermes("read", path="a.txt")], [], ""),
    "qwen-thinking": (["\nHm.\n", "</think>", "\n\nI look.\n", *hermes("read", path="a.txt")], [], "<think>\n"),
    "mistral": (
        ["I look.", "[TOOL_CALLS]", "read", "[ARGS]", '{"path": ', '"a.txt"}'], ["[TOOL_CALLS]", "[ARGS]"],
        "{# [TOOL_CALLS] #}",
    ),
    "llama": (["<|python_tag|>", '{"name": "read", ', '"parameters": {"path": "a.txt"}}'], ["<|python_tag|>"],
              "{# <|python_tag|> #}"),
}  # fmt: skip


def template_of(family: str) -> str:
    """Return the template with the markers of this family only."""
    word = FAMILIES[family][2]
    if family.startswith("qwen"):
        return TEMPLATE.replace("<|after {{ messages[-1].role }}|>", f"<|after {{{{ messages[-1].role }}}}|>{word}")
    return TEMPLATE.replace("<tool_call>", "[").replace("</tool_call>", "]").replace("</think>", "") + word


def post(api: Api, path: str, **body: Any) -> dict[str, Any]:
    answer = requests.post(f"{api.url}/v1/{path}", json={"model": "scripted", **body}, timeout=60)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_and_reasoning_have_each_apis_shape(family: str, tmp_path: Path) -> None:
    texts, special, _ = FAMILIES[family]
    messages = [{"role": "user", "content": "What does a.txt say?"}]
    thought, spoken = ("Hm." if "qwen" in family else None), ("" if family == "llama" else "I look.")
    start = FAMILIES[family][2] if family == "qwen-thinking" else "user"
    with scripted_api(tmp_path / "scripted", {start: texts}, template_of(family), special) as api:
        function = {"type": "function", "function": TOOL | {"parameters": PATH}}
        message = post(api, "chat/completions", messages=messages, tools=[function])["choices"][0]["message"]
        called = message["tool_calls"][0]["function"]
        assert (called["name"], json.loads(called["arguments"])) == ("read", {"path": "a.txt"})
        assert (message.get("reasoning_content"), message["content"] or "") == (thought, spoken)

        reply = post(api, "messages", messages=messages, tools=[TOOL | {"input_schema": PATH}], max_tokens=50)
        blocks = {block["type"]: block for block in reply["content"]}
        assert (blocks["tool_use"]["name"], blocks["tool_use"]["input"]) == ("read", {"path": "a.txt"})
        assert [blocks.get("thinking", {}).get("thinking"), blocks.get("text", {}).get("text", "")] == [thought, spoken]

        reply = post(api, "responses", input=messages, tools=[TOOL | {"type": "function", "parameters": PATH}])
        items = {item["type"]: item for item in reply["output"]}
        assert json.loads(items["function_call"]["arguments"]) == {"path": "a.txt"}
        texts_of = {kind: items[kind]["content"][0]["text"] for kind in ("reasoning", "message") if kind in items}
        assert (texts_of.get("reasoning"), texts_of.get("message", "")) == (thought, spoken)
        num_reasoning_tokens = {"qwen": 2, "qwen-thinking": 1}.get(family, 0)
        assert reply["usage"]["output_tokens_details"]["reasoning_tokens"] == num_reasoning_tokens
