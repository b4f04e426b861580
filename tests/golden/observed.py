"""Generator of the golden trace of a monitored server: `python -m tests.golden.make observed.kvtrace`.

Rank 0 is vLLM itself: the first messages of `tests/unit/monitor/wire/vllm-0.32.0.msgpack`, which
`tests.load.attach_vllm --keep-wire` saved as they came over ZeroMQ. Rank 1 covers the rest: other media, groups,
repeated contents, copies, a move before its naming, a gap, a cleared cache, a restart.
"""

from itertools import count
from pathlib import Path

import msgspec
from msgspec.structs import replace

from engine.observe.monitor.observed_log import ObservedLog, header_of
from engine.observe.monitor.sequence import Break, Message
from tests.unit.monitor.publisher import message, removed, stored

WIRE = Path(__file__).parents[1] / "unit" / "monitor" / "wire" / "vllm-0.32.0.msgpack"
NUM_MESSAGES = 12


def make(path: Path) -> None:
    """Write the trace."""
    header = header_of(
        model="m",
        source="vLLM 0.32.0",
        block_size=32,
        num_blocks=512,
        events=["tcp://rank-0:5557", "tcp://rank-1:5558"],
    )
    ticks = count()
    header = replace(header, created="2026-11-23T00:00:00+00:00", generator="tests.golden.observed")
    observed = ObservedLog(header, path, clock=lambda: next(ticks) / 8)
    observed.receive(0, Break("attached", 0))
    for number, payload in enumerate(msgspec.msgpack.decode(WIRE.read_bytes())[:NUM_MESSAGES]):
        observed.receive(0, Message(number, payload, replayed=number < 4))
    observed.numbers({0: {"vllm:num_requests_running": 3.0, "vllm:kv_cache_usage_perc": 0.25}})
    first = stored([b"a", b"b"], list(range(64)), 32, group_idx=0, kv_cache_spec_kind="full_attention")
    last = stored([b"e"], [3] * 32, 32, b"b", group_idx=0, lora_name="poet")
    moved = stored([b"m"], [], 0, medium="STORAGE", group_idx=0, locality="REMOTE", ownership="fs")
    for received in (
        Break("attached", 7),
        Message(7, message(first, {**first, "group_idx": 1, "kv_cache_spec_sliding_window": 128}), True),
        Message(8, message(first, {**first, "medium": "cpu", "token_ids": []}, {**first, "medium": "FS"}), False),
        Message(9, message(removed([b"b", b"z"], group_idx=0), removed([b"a"], medium="CPU", group_idx=0)), False),
        Message(10, message(stored([b"d"], [7] * 32, 32, b"a", medium="CPU", extra_keys=[["salt"]])), False),
        Break("gap", 13, 2),
        Message(13, message({"type": "BlockPinned"}, stored([2**63 + 5], [1] * 64, 64, -3)), True),
        Message(14, message({"type": "AllBlocksCleared"}), False),
        Message(15, msgspec.msgpack.encode("nonsense"), False),
        Break("restarted", 0),
        Message(0, message(first), False),
        Message(1, message(last, last, moved, stored([b"g", b"i"], [7] * 96, 32, b"b", group_idx=1)), False),
        Message(2, message(removed([b"e"], group_idx=0), stored([b"m"], [9] * 32, 32, b"l", group_idx=0)), False),
    ):
        observed.receive(1, received)
    observed.problem(0, "metrics", "no metrics from http://rank-0:8000/metrics: Connection refused")
    observed.log.close()
