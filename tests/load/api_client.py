"""Streaming clients of the API in one process, whose processor time is reported.

Usage: python -m tests.load.api_client PORT CLIENTS SECONDS [share of clients that disconnect early] [seed]
It prints a line of JSON.
"""

import asyncio
import json
import random
import resource
import sys
import time
from dataclasses import dataclass, field

MAX_TOKENS = 64
# beginnings of stories and poems, some with common prefixes
PROMPTS = [
    f"{beginning} {rest}"
    for beginning in ("Once upon a time there was a king", "春江潮水连海平，海上明月共潮生。", "The little house stood")
    for rest in ("lived", "had a daughter", "滟滟随波千万里", "何处", "in the wood", "went out")
]


@dataclass
class Seen:
    """Counts of the clients."""

    requests: int = 0
    left: int = 0  # responses aborted by their client
    tokens: int = 0  # of complete responses, from their `usage`
    events: int = 0
    errors: list[str] = field(default_factory=list)
    ttft: list[float] = field(default_factory=list)  # seconds


async def client(port: int, number: int, end: float, leaves: float, rng: random.Random, seen: Seen) -> None:
    """Send requests in sequence over one connection, until `end`."""
    reader = writer = None
    while time.monotonic() < end:
        if writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert reader is not None
        body = json.dumps(
            {
                "model": "bundled",
                "prompt": PROMPTS[rng.randrange(len(PROMPTS))],
                "max_tokens": MAX_TOKENS,
                "temperature": 0,
                "ignore_eos": True,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode()
        head = (
            f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer client-{number}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        began = time.monotonic()
        writer.write(head.encode() + body)
        leaves_after = rng.randrange(1, MAX_TOKENS) if rng.random() < leaves else None
        seen.requests += 1
        try:
            stays = await _read(reader, began, leaves_after, seen)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            seen.errors.append(type(error).__name__)
            stays = False
        if not stays:
            writer.close()
            writer = None
    if writer is not None:
        writer.close()


async def _read(reader: asyncio.StreamReader, began: float, leaves_after: int | None, seen: Seen) -> bool:
    """Read an answer to its end. Returns False if the connection cannot be used further."""
    status = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in status[:20]:
        seen.errors.append(status[:60].decode("latin-1"))
        return False
    events, last = 0, b""
    while True:
        size = int(await reader.readuntil(b"\r\n"), 16)
        piece = await reader.readexactly(size + 2)
        if not size:
            break
        if not events:
            seen.ttft.append(time.monotonic() - began)
        events += piece.count(b"data: {")
        last = (last + piece)[-600:]
        if leaves_after is not None and events >= leaves_after:
            seen.left += 1
            return False
    seen.events += events
    if not last.rstrip().endswith(b"data: [DONE]"):
        seen.errors.append("no [DONE]")
    at = last.rfind(b'"completion_tokens":')
    seen.tokens += int(last[at + 20 :].split(b",", 1)[0])
    return True


async def main() -> None:
    port, clients, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    leaves, seed = float(sys.argv[4] if len(sys.argv) > 4 else 0), int(sys.argv[5] if len(sys.argv) > 5 else 0)
    seen, began = Seen(), time.monotonic()
    await asyncio.gather(
        *(client(port, i, began + seconds, leaves, random.Random(seed * 100_000 + i), seen) for i in range(clients))
    )
    usage = resource.getrusage(resource.RUSAGE_SELF)
    ttft = sorted(seen.ttft)
    print(
        json.dumps(
            {
                "seconds": time.monotonic() - began,
                "requests": seen.requests,
                "left": seen.left,
                "tokens": seen.tokens,
                "events": seen.events,
                "errors": len(seen.errors),
                "first_errors": seen.errors[:3],
                "ttft_p50": ttft[len(ttft) // 2] if ttft else None,
                "ttft_mean": sum(ttft) / len(ttft) if ttft else None,
                "ttft_p99": ttft[int(len(ttft) * 0.99)] if ttft else None,
                "cpu_seconds": usage.ru_utime + usage.ru_stime,
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main())
