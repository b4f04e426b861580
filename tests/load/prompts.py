"""Measure `kvtheater prompts` on a day of an agent: by default 1,000 requests of 100,000 tokens each.

Usage: python -m tests.load.prompts [--requests 1000] [--tokens 100000] [--sessions 10] [--keep FILE]
The requests are analysed by parts, and as rendered by a chat template. Sessions are interleaved; each request repeats
the history of the session's previous request. Texts are slices of Python's standard library. A tenth of the turns
breaks the cached prefix.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.model.shipped import SHIPPED
from engine.prompts.tokens import open_encoder

# like most published templates, it appends messages and trims texts
TEMPLATE = (
    "{%- if tools %}{{ '<|im_start|>tools\n' }}{%- for tool in tools %}{{ tool | tojson }}{{ '\n' }}{%- endfor %}"
    "{{ '<|im_end|>\n' }}{%- endif %}"
    "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}{{ message.content | trim }}"
    "{%- for call in message.tool_calls or [] %}{{ '\n<tool_call>\n' }}{{ call.function | tojson }}"
    "{{ '\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)
NUM_TOOLS = 20
FIRST = 0.5  # length of a session's first prompt / mean length of its prompts
BREAKS = 0.1  # share of turns


class Texts:
    """Slices of source code with about a given number of tokens."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        folder = Path(sysconfig.get_paths()["stdlib"])
        self._source = "".join(path.read_text("utf-8", "replace") for path in sorted(folder.glob("*.py")))
        encode = open_encoder()
        self.characters = 100_000 / len(encode(self._source[:100_000]))  # characters per token

    def slice(self, num_tokens: float) -> str:
        length = int(num_tokens * self.characters)
        begin = self._random.randrange(len(self._source) - length)
        return self._source[begin : begin + length]


def sessions_of(num_requests: int, num_tokens: int, num_sessions: int) -> Iterator[dict[str, Any]]:
    """Yield bodies of chat completions, with sessions interleaved."""
    texts, chance = Texts(0), random.Random(1)
    tools = [
        {
            "type": "function",
            "function": {
                "name": f"tool_{number}",
                "description": texts.slice(num_tokens / 1000),
                "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            },
        }
        for number in range(NUM_TOOLS)
    ]
    num_turns = num_requests // num_sessions
    fixed = NUM_TOOLS * num_tokens / 1000
    grows = 2 * (1 - FIRST) * num_tokens / num_turns  # tokens per turn
    histories: list[list[dict[str, Any]]] = [
        [
            {"role": "system", "content": texts.slice(FIRST * num_tokens - fixed)},
            {"role": "user", "content": texts.slice(grows)},
        ]
        for _ in range(num_sessions)
    ]
    for turn in range(num_turns):
        for session, messages in enumerate(histories):
            given = tools
            if turn and chance.random() < BREAKS:
                if chance.random() < 0.5:
                    given = [*tools[:10], *tools[11:], tools[10]]
                else:
                    at = chance.choice([i for i, one in enumerate(messages) if one["role"] == "tool"])
                    messages[at] = {**messages[at], "content": "[cut]"}
            key = f"session {session}"
            yield {"model": "made-up", "prompt_cache_key": key, "tools": given, "messages": list(messages)}
            function = {"name": "tool_3", "arguments": json.dumps({"path": f"{session}/{turn}.py"})}
            call = {"id": f"call_{turn}", "type": "function", "function": function}
            messages += [
                {"role": "assistant", "content": texts.slice(grows * 0.2), "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call["id"], "content": texts.slice(grows * 0.8)},
            ]


def write_day(file: Path, num_requests: int, num_tokens: int, num_sessions: int = 10) -> None:
    with file.open("w", encoding="utf-8") as out:
        for body in sessions_of(num_requests, num_tokens, num_sessions):
            out.write(json.dumps(body, ensure_ascii=False) + "\n")


def folder_with_template(folder: Path) -> Path:
    """Write the bundled model's tokenizer with a chat template."""
    bundled = SHIPPED["bundled"].folder
    config = json.loads((bundled / "tokenizer_config.json").read_text(encoding="utf-8"))
    (folder / "tokenizer.json").write_bytes((bundled / "tokenizer.json").read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": TEMPLATE}), encoding="utf-8")
    return folder


def measure(name: str, file: Path, *options: str) -> None:
    began = time.monotonic()
    command = [sys.executable, "-m", "app", "prompts", str(file), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        shown = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    taken = time.monotonic() - began
    summary = next((line for line in shown.splitlines() if " requests of " in line), shown[:200])
    used = usage.ru_utime + usage.ru_stime
    print(
        f"{name}: {taken:.1f} s, {used:.1f} s of CPU, {usage.ru_maxrss / (1 << 20):.2f} GiB at most; {summary}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the day here, and leave it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = arguments.keep or Path(folder) / "day.jsonl"
        write_day(file, arguments.requests, arguments.tokens, arguments.sessions)
        print(f"{arguments.requests} requests, {file.stat().st_size / (1 << 20):.0f} MiB", flush=True)
        measure("part by part", file)
        tokenizer = folder_with_template(Path(folder))
        measure("as a chat template renders them", file, "--tokenizer", str(tokenizer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
