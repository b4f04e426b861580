"""Comparison of vLLM's pool with its KV events: `python events_and_pool.py JOB.json`, with vLLM installed.

After every step, the hashes in the pool's map are compared with those that `engine.observe.monitor` knows from the
events. The last output line is JSON: `steps`, the largest number of contents in the pool (`most`), the number of times
that a content has several blocks (`copies`), contents reported but not cached (`wrong`) and cached but not reported
(`missed`).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from engine.observe.monitor.contents import Contents, Places
from engine.observe.monitor.events import decode
from engine.observe.vllm_recorder.offline import serve


def watch(pool: Any, found: dict[str, int]) -> None:
    """Wrap `take_events` of `pool`, vLLM's class, to compare the pool with its events at each call."""
    from vllm.v1.core.kv_cache_utils import get_block_hash, maybe_convert_block_hash

    known = Contents(0, 1 << 16, Places())
    take = pool.take_events

    def take_and_compare(self: Any) -> Any:
        events = take(self)
        for event in decode(msgspec.msgpack.encode([0.0, events, 0])).events:
            known.ops(event)
        entries = self.cached_block_hash_to_block._cache
        cached = {_bytes(maybe_convert_block_hash(get_block_hash(key))) for key in entries}
        reported = {key[-1] for key in known.keys}
        found["steps"] += 1
        found["most"] = max(found["most"], len(cached))
        found["copies"] += sum(isinstance(entry, dict) and len(entry) > 1 for entry in entries.values())
        found["wrong"] += len(reported - cached)
        found["missed"] += len(cached - reported)
        return events

    pool.take_events = take_and_compare


def _bytes(one: bytes | int) -> bytes:
    return one if isinstance(one, bytes) else one.to_bytes(8, "big")


def main() -> None:
    """Serve the job and print the counts."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm.v1.core.block_pool import BlockPool

    found = dict.fromkeys(("steps", "most", "copies", "wrong", "missed"), 0)
    watch(BlockPool, found)
    serve(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
