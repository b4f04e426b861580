"""Invented sessions of agents with a known break, two for each cause."""

import copy
import json
from pathlib import Path
from typing import Any, NamedTuple

from engine.prompts.readers import read_prompts
from engine.prompts.report import CacheReplay, Settings, Verdict

WORDS = ("river", "moon", "tide", "flower", "night", "sand", "frost", "tower", "boat", "spring", "wind", "shore")


class Session(NamedTuple):
    """Bodies of requests, with cause and path of the break in the last one ("" for none)."""

    name: str
    bodies: list[dict[str, Any]]
    cause: str
    path: str = ""


def encode(text: str) -> list[int]:
    return list(text.encode())


def verdicts(entries: list[dict[str, Any]], folder: Path) -> list[Verdict]:
    """Return the verdicts of requests with one token per byte."""
    file, player = folder / "session.jsonl", CacheReplay(encode, Settings())
    file.write_text("\n".join(map(json.dumps, entries)))
    return [player.run(request) for request in read_prompts(file).requests]


def text(seed: int, words: int = 60) -> str:
    return " ".join(WORDS[(seed * 7 + i * (seed + 3)) % len(WORDS)] for i in range(words)) + "."


def tool(name: str, description: str = "", **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties or {"path": {"type": "string"}}}
    return {
        "type": "function",
        "function": {"name": name, "description": description or f"Does {name}.", "parameters": schema},
    }


def chat(turns: int, system: str = "", tools: tuple[str, ...] = (), reasoning: bool = False) -> dict[str, Any]:
    """Return an OpenAI chat body that ends with the question of the last turn."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system or text(1)}]
    for turn in range(1, turns + 1):
        messages.append({"role": "user", "content": f"Question {turn}: {text(10 + turn)}"})
        if turn < turns:
            answer: dict[str, Any] = {"role": "assistant", "content": f"Answer {turn}: {text(30 + turn)}"}
            if reasoning:
                answer["reasoning_content"] = f"Thought {turn}: {text(50 + turn)}"
            messages.append(answer)
    body: dict[str, Any] = {"model": "made-up", "messages": messages}
    if tools:
        body["tools"] = [tool(name) for name in tools]
    return body


def anthropic(turns: int, system: str = "", tools: tuple[str, ...] = ("read",)) -> dict[str, Any]:
    """Return a Messages body in blocks, with a tool call and its result in each earlier turn."""
    messages: list[dict[str, Any]] = []
    for turn in range(1, turns + 1):
        messages.append({"role": "user", "content": [{"type": "text", "text": f"Question {turn}: {text(10 + turn)}"}]})
        if turn < turns:
            call = {"type": "tool_use", "id": f"t{turn}", "name": "read", "input": {"path": f"{turn}.txt"}}
            messages.append({"role": "assistant", "content": [{"type": "text", "text": text(30 + turn)}, call]})
            result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": f"File {turn}: {text(70 + turn)}"}
            messages.append({"role": "user", "content": [result]})
            messages.append({"role": "assistant", "content": [{"type": "text", "text": text(40 + turn)}]})
    return {
        "model": "made-up",
        "max_tokens": 100,
        "system": [{"type": "text", "text": system or text(1)}],
        "tools": [{"name": n, "description": f"Does {n}.", "input_schema": {"type": "object"}} for n in tools],
        "messages": messages,
    }


def changed(body: dict[str, Any], *path: Any, to: Any) -> dict[str, Any]:
    """Return a copy in which one value is replaced, or removed (`to` is None)."""
    body = copy.deepcopy(body)
    part = body
    for step in path[:-1]:
        part = part[step]
    if to is None:
        del part[path[-1]]
    else:
        part[path[-1]] = to
    return body


def _sessions() -> list[Session]:
    two = ("read", "write")
    ordered = chat(3, tools=two)
    keys = changed(
        ordered, "tools", 0, "function", "parameters", to={"properties": {"path": {"type": "string"}}, "type": "object"}
    )
    dated = "You help. Now it is {}. " + text(2)
    marked = chat(2)
    marked["messages"][-1]["content"] += "\n<reminder>Answer briefly.</reminder>"
    block = anthropic(2)
    block["messages"][-1]["content"].append({"type": "text", "text": "<reminder>Use tools.</reminder>"})
    image = {"type": "image", "source": {"type": "base64", "data": "aaaa"}}
    pictured = changed(anthropic(2), "messages", 0, "content", to=[image, {"type": "text", "text": text(11)}])
    long = chat(6)
    summary = {"role": "user", "content": "Summary of what was said so far: " + text(90, 20)}
    agent = anthropic(5)
    reminder = {"role": "user", "content": "<reminder>Use tools.</reminder>"}
    return [
        # no break
        Session("goes on", [chat(1), chat(2), chat(3)], ""),
        Session("goes on in blocks", [anthropic(1), anthropic(2), anthropic(3)], ""),
        Session("another question", [chat(2), changed(chat(2), "messages", -1, "content", to=text(99))], ""),
        Session("another conversation", [chat(2), changed(chat(1), "messages", 1, "content", to=text(99))], ""),
        # tools
        Session("tool added", [chat(2, tools=two), chat(3, tools=(*two, "search"))], "tools_added", "tools[2]"),
        Session(
            "tool added first", [anthropic(2), anthropic(3, tools=("ask", "read"))], "tools_added", "tools[0].name"
        ),
        Session("tool removed", [chat(2, tools=two), chat(3, tools=("read",))], "tools_removed", "messages[0].content"),
        Session("all tools removed", [chat(2, tools=two), chat(3)], "tools_removed", "messages[0].content"),
        Session("tool replaced", [anthropic(2), anthropic(3, tools=("look",))], "tools_replaced", "tools[0].name"),
        Session(
            "tool renamed",
            [chat(2, tools=two), chat(3, tools=("read", "edit"))],
            "tools_replaced",
            "tools[1].function.name",
        ),
        Session(
            "tools reordered",
            [chat(2, tools=two), chat(3, tools=two[::-1])],
            "tools_reordered",
            "tools[0].function.name",
        ),
        Session(
            "tools shuffled",
            [anthropic(2, tools=("a", "b", "c")), anthropic(3, tools=("a", "c", "b"))],
            "tools_reordered",
            "tools[1].name",
        ),
        Session(
            "tool re-described",
            [chat(2, tools=two), changed(ordered, "tools", 1, "function", "description", to="Writes.")],
            "tool_changed",
            "tools[1].function.description",
        ),
        Session(
            "schema changed",
            [anthropic(2), changed(anthropic(3), "tools", 0, "input_schema", to={"type": "array"})],
            "tool_changed",
            "tools[0].input_schema.type",
        ),
        Session("schema keys", [chat(2, tools=two), keys], "schema_keys_reordered", "tools[0].function.parameters"),
        Session(
            "tool keys",
            [
                anthropic(2),
                changed(
                    anthropic(3),
                    "tools",
                    0,
                    to={"description": "Does read.", "name": "read", "input_schema": {"type": "object"}},
                ),
            ],
            "schema_keys_reordered",
            "tools[0]",
        ),
        # system prompt
        Session(
            "clock",
            [chat(2, dated.format("2026-11-27 13:05:10")), chat(3, dated.format("2026-11-27 13:06:44"))],
            "volatile_text",
            "messages[0].content",
        ),
        Session(
            "date in words",
            [
                anthropic(2, dated.format("Friday, November 27, 2026")),
                anthropic(3, dated.format("Saturday, November 28, 2026")),
            ],
            "volatile_text",
            "system[0].text",
        ),
        Session(
            "identifier",
            [
                chat(2, dated.format("3f2504e0-4f89-11d3-9a0c-0305e82c3301")),
                chat(3, dated.format("9b2d04e0-1f89-11d3-9a0c-0305e82c3399")),
            ],
            "volatile_text",
            "messages[0].content",
        ),
        Session(
            "temporary path",
            [anthropic(2, dated.format("in /tmp/run-ab12/work")), anthropic(3, dated.format("in /tmp/run-zz98/work"))],
            "volatile_text",
            "system[0].text",
        ),
        Session(
            "counter",
            [chat(2, dated.format("step 4 of 30")), chat(3, dated.format("step 5 of 30"))],
            "volatile_text",
            "messages[0].content",
        ),
        Session("another system prompt", [chat(2), chat(3, text(77))], "system_changed", "messages[0].content"),
        Session(
            "system sentence added",
            [anthropic(2), anthropic(3, text(1) + " Be brief.")],
            "system_changed",
            "system[0].text",
        ),
        # reasoning, images, the last turn
        Session("reasoning dropped", [chat(3, reasoning=True), chat(4)], "reasoning_dropped", "messages[2].content"),
        Session(
            "reasoning dropped once",
            [chat(3, reasoning=True), changed(chat(4, reasoning=True), "messages", 4, "reasoning_content", to=None)],
            "reasoning_dropped",
            "messages[4].content",
        ),
        Session(
            "another image",
            [pictured, changed(pictured, "messages", 0, "content", 0, "source", "data", to="bbbb")],
            "image_changed",
            "messages[0].content[0]",
        ),
        Session(
            "another image later",
            [
                pictured,
                changed(
                    changed(anthropic(3), "messages", 0, "content", to=pictured["messages"][0]["content"]),
                    "messages",
                    0,
                    "content",
                    0,
                    "source",
                    "data",
                    to="cc",
                ),
            ],
            "image_changed",
            "messages[0].content[0]",
        ),
        Session("marker of the last turn", [marked, chat(3)], "last_turn_marker", "messages[3].content"),
        Session("block of the last turn", [block, anthropic(3)], "last_turn_marker", "messages[5].content[0].text"),
        # history
        Session(
            "oldest dropped",
            [long, {**chat(7), "messages": [chat(7)["messages"][0], *chat(7)["messages"][5:]]}],
            "messages_dropped",
            "messages[1].content",
        ),
        Session(
            "one turn dropped",
            [agent, {**anthropic(6), "messages": anthropic(6)["messages"][:4] + anthropic(6)["messages"][8:]}],
            "messages_dropped",
            "messages[4].content[0].text",
        ),
        Session(
            "reminder put in",
            [long, {**chat(7), "messages": [*chat(7)["messages"][:5], reminder, *chat(7)["messages"][5:]]}],
            "messages_inserted",
            "messages[5].content",
        ),
        Session(
            "reminders put in before blocks",
            [agent, {**anthropic(6), "messages": [reminder, reminder, *anthropic(6)["messages"]]}],
            "messages_inserted",
            "messages[0].content",
        ),
        Session(
            "result trimmed",
            [agent, changed(anthropic(6), "messages", 2, "content", 0, "content", to="[cut]")],
            "message_trimmed",
            "messages[2].content[0]",
        ),
        Session(
            "message trimmed",
            [long, changed(chat(7), "messages", 2, "content", to="Answer 1: …")],
            "message_trimmed",
            "messages[2].content",
        ),
        Session(
            "summarised",
            [
                {**long, "prompt_cache_key": "k"},
                {
                    **long,
                    "prompt_cache_key": "k",
                    "messages": [long["messages"][0], summary, {"role": "user", "content": text(98)}],
                },
            ],
            "history_summarised",
            "messages[1].content",
        ),
        Session(
            "summarised but the last",
            [agent, {**agent, "messages": [summary, *agent["messages"][-1:]]}],
            "history_summarised",
            "messages[0].content",
        ),
        Session(
            "answer edited",
            [long, changed(chat(7), "messages", 4, "content", to=text(96, 70))],
            "message_edited",
            "messages[4].content",
        ),
        Session(
            "call edited",
            [agent, changed(anthropic(6), "messages", 1, "content", 1, "input", to={"path": "other.txt"})],
            "message_edited",
            "messages[1].content[1]",
        ),
        # another cache
        Session("other model", [chat(2), {**chat(3), "model": "other"}], "other_model", "model"),
        Session("other model in blocks", [anthropic(2), {**anthropic(3), "model": "small"}], "other_model", "model"),
        Session("other adapter", [chat(2), {**chat(3), "lora_path": "sql"}], "other_adapter", "adapter"),
        Session(
            "other adapter of two",
            [{**chat(2), "adapter_id": "sql"}, {**chat(3), "adapter_id": "law"}],
            "other_adapter",
            "adapter",
        ),
        Session("salted", [chat(2), {**chat(3), "cache_salt": "s"}], "other_cache_salt", "cache_salt"),
        Session(
            "other salt in blocks",
            [{**anthropic(2), "cache_salt": "s"}, {**anthropic(3), "cache_salt": "t"}],
            "other_cache_salt",
            "cache_salt",
        ),
        # undecidable
        Session(
            "other roles in a call",
            [long, changed(chat(7), "messages", 4, to={"role": "tool", "content": text(98)})],
            "not_known",
            "messages[4].content",
        ),
        Session(
            "other roles",
            [long, changed(chat(7), "messages", 2, to={"role": "user", "content": text(97)})],
            "not_known",
            "messages[2].content",
        ),
    ]


SESSIONS = _sessions()
