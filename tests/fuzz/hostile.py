"""Hostile traces that lead a reader to compute, wait or allocate far more than the size of the file.

`TRACES` has the function that makes each file, and the expected refusal of both readers (None: they read it quickly).
No file is larger than a megabyte.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

MAGIC = b"KVTRACE\x01"
HEADER, RECORD, CAPTURE, KEYFRAME = 1, 2, 3, 4
MAX_BYTES = 1 << 20
MANY = 60_000  # tokens of a prompt: 180 KB with one byte of text each

Ops = list[dict[str, Any]]


def frame(kind: int, payload: bytes) -> bytes:
    """Return the payload in a frame with a valid checksum."""
    return struct.pack("<BII", kind, len(payload), zlib.crc32(payload)) + payload


def header(engine: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a header of 4 blocks of 2 slots and one layer, with changes."""
    facts = {
        "name": "tiny", "architecture": "Tiny", "num_params": 1, "num_layers": 1, "hidden_size": 4,
        "intermediate_size": 4, "num_heads": 1, "num_kv_heads": 1, "head_dim": 2, "v_head_dim": 2, "vocab_size": 300,
        "max_position": 1 << 20, "dtype": "float32", "sliding_windows": [None],
    }  # fmt: skip
    return {
        "generator": "hostile",
        "created": "2026-01-01T00:00:00+00:00",
        "model": {**facts, **(model or {})},
        "tokenizer": {"name": "bytes", "vocab_size": 300, "eos_token_ids": []},
        "engine": {"block_size": 2, "num_blocks": 4, **(engine or {})},
        "kv_bytes_per_token": 16,
        "machine": {"device": "cpu", "processor": "", "num_threads": 1, "versions": {}},
        **more,
    }


def record(index: int, ops: Ops, **more: Any) -> dict[str, Any]:
    """Return a step with memory figures of 0, which only `check` rejects."""
    names = ("num_blocks", "block_size", "blocks_held", "blocks_cached", "blocks_free", "tokens_held",
             "tokens_logical", "bytes_held", "bytes_used", "bytes_cached")  # fmt: skip
    outputs = [
        {"seq_id": o["seq_id"], "token_id": o["token_id"], "token_bytes": b"a", "text": "a", "logprob": 0.0, "top": []}
        for o in ops
        if o["type"] == "sample"
    ]
    return {
        "index": index, "kind": "step", "step": index + 1, "ops": ops, "outputs": outputs, "timing": {"at": 0.0},
        "memory": dict.fromkeys(names, 0), **more,
    }  # fmt: skip


def trace(head: dict[str, Any], records: list[dict[str, Any]]) -> bytes:
    """Return the bytes of the file."""
    frames = [frame(HEADER, _encode(head))] + [frame(RECORD, _encode(each)) for each in records]
    return MAGIC + b"".join(frames)


def submit(seq_id: int = 0, num_tokens: int = 3, **more: Any) -> dict[str, Any]:
    return {
        "type": "submit", "seq_id": seq_id, "queue_position": 0, "request_id": "r", "max_tokens": 4,
        "prompt_token_ids": [97] * num_tokens, "prompt_token_bytes": [b"a"] * num_tokens, **more,
    }  # fmt: skip


def admit(seq_id: int = 0, cached: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "admit", "seq_id": seq_id, "num_cached_tokens": cached, "resumed": False, **more}


def on_block(kind: str, block_id: int, logical: int = 0, seq_id: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": kind, "seq_id": seq_id, "block_id": block_id, "logical": logical, **more}


def write(num_tokens: int, start: int = 0, seq_id: int = 0) -> dict[str, Any]:
    return {"type": "write", "seq_id": seq_id, "start": start, "num_tokens": num_tokens}


def fork(parent: int, seq_id: int) -> dict[str, Any]:
    return {"type": "fork", "parent_seq_id": parent, "seq_id": seq_id, "request_id": "r"}


def free(block_id: int, to: str | None = "front", seq_id: int = 0) -> dict[str, Any]:
    return {"type": "free", "seq_id": seq_id, "block_id": block_id, "to": to}


def _encode(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


def _one(*ops: dict[str, Any], engine: dict[str, Any] | None = None, **more: Any) -> bytes:
    return trace(header(engine), [record(0, list(ops), **more)])


def _repeat(
    first: Ops, cycle: Callable[[int], Ops], engine: dict[str, Any], num_rounds: int = 200, max_bytes: int = MAX_BYTES
) -> bytes:
    """Return a trace of a record with `first`, and of records with `num_rounds` of `cycle` each, up to `max_bytes`."""
    head = header(engine)
    size, records, number = len(trace(head, [record(0, first)])), [record(0, first)], 0
    while size < max_bytes - 40_000:
        ops: Ops = []
        for number in range(number, number + num_rounds):  # noqa: B020 - numbered through all records
            ops += cycle(number)
        number += 1
        records.append(record(len(records), ops))
        size += len(_encode(records[-1])) + 9
    while len(data := trace(head, records)) > max_bytes:
        records.pop()
    return data


HELD_SMALL: Ops = [submit(), admit(), on_block("allocate", 0)]
LARGE = {"block_size": MANY, "num_blocks": 4}
HELD: Ops = [submit(0, MANY), admit(), on_block("allocate", 0)]
POOL = 1 << 18


def _pool_walk(number: int) -> Ops:
    """Allocate the head of a large free queue and put it back."""
    return [on_block("allocate", 0), free(0)]


def _middle(number: int) -> Ops:
    """Revive a block in the middle of a large free queue, and free it to the end."""
    return [on_block("share", 100_000 + number, revived=True), free(100_000 + number, "back")]


def _shared_copies(number: int) -> Ops:
    """Copy a block of two owners for one of them, and free the copy."""
    return [on_block("allocate", 1, seq_id=1), {"type": "copy", "seq_id": 1, "logical": 0, "src": 0, "dst": 1},
            free(1, seq_id=1), on_block("share", 0, seq_id=1, revived=False)]  # fmt: skip


def _swaps(number: int) -> Ops:
    moved = {"block_id": 0, "logical": 0, "cpu_block_id": 0, "num_bytes": 1, "seq_id": 0}
    return [{"type": "swap_out", **moved}, {"type": "swap_in", **moved}]


def _gaps(number: int) -> Ops:
    """Fill a table with released entries up to the last token, then free it."""
    return [on_block("share", 0, MANY, revived=True), free(0, "back")]


def _many_records() -> bytes:
    """Return short records, each of which could cause a scan of 1,024 blocks."""
    head = header({"num_blocks": 1024})
    return trace(head, [record(index, []) for index in range(4500)])


def _many_waiting() -> bytes:
    records = [record(0, [submit(i, 1) for i in range(4000)])]
    return trace(header(), records + [record(index, []) for index in range(1, 2000)])


def _capture_of_layers() -> bytes:
    """Return a capture with the arrays of one layer 9,000 times, for a batch of 3,000 entries."""
    ops = [submit(i, 1) for i in range(3000)]
    batch = [
        {"seq_id": i, "phase": "decode", "start": 0, "token_ids": [], "context_len": 0, "samples": False}
        for i in range(3000)
    ]
    array = msgspec.msgpack.Ext(1, b"\x02\x01" + struct.pack("<I", 0))
    layer = {"layer": 0, "q": array, "k": array, "v": array, "rows": []}
    capture = {"index": 0, "dtype": "float32", "layers": [layer] * 9000}
    first = record(0, ops, batch=batch, has_capture=True)
    return trace(header(), [first]) + frame(CAPTURE, _encode(capture))


def _empty_but_wide() -> bytes:
    shape = struct.pack("<III", 0, (1 << 32) - 1, (1 << 32) - 1)
    array = msgspec.msgpack.Ext(1, b"\x02\x03" + shape)
    layer = {"layer": 0, "q": array, "k": array, "v": array, "rows": []}
    capture = {"index": 0, "dtype": "float32", "layers": [layer]}
    return trace(header(), [record(0, [], has_capture=True)]) + frame(CAPTURE, _encode(capture))


def _damaged_text(field: str) -> bytes:
    """Return a record with text that is not UTF-8, and a valid checksum."""
    data = _encode(record(0, [submit()])).replace(b"\xaarequest_id\xa1r", b"\xaarequest_id\xa1\xff", 1)
    return trace(header(), []) + frame(RECORD, data)


def _lying_keyframe(**changes: Any) -> bytes:
    state = {
        "index": 0, "step": 1, "block_size": 2, "block_groups": [], "blocks": [], "free_queues": [[0, 1, 2, 3]],
        "waiting": [7], "running": [7], "sequences": {}, **changes,
    }  # fmt: skip
    return trace(header(), [record(0, [submit()])]) + frame(KEYFRAME, _encode(state)) + frame(
        RECORD, _encode(record(1, [admit()]))
    )  # fmt: skip


class Hostile(NamedTuple):
    """Hostile file."""

    make: Callable[[], bytes]
    refused: str | None  # a part of both readers' error; None: both read it


TRACES: dict[str, Hostile] = {
    "a write past all tokens": Hostile(lambda: _one(*HELD[:2], write((1 << 53) - 1)), "but not all of"),
    "a number over 2^53": Hostile(lambda: _one(submit(), write(1 << 53)), "num_tokens"),
    "a count below 0": Hostile(lambda: _one(submit(), admit(0, -2)), "cannot be computed"),
    "blocks of 2^53": Hostile(lambda: _one(submit(), engine={"block_size": 1 << 53}), "engine.block_size"),
    "blocks of 2^25": Hostile(lambda: _one(submit(), engine={"block_size": 1 << 25}), "engine.block_size"),
    "a pool of 2^19": Hostile(lambda: _one(engine={"num_blocks": 1 << 19}), "engine.num_blocks"),
    "2^32 layers": Hostile(lambda: trace(header(model={"num_layers": 1 << 32}), []), "model.num_layers"),
    "2^32 heads": Hostile(lambda: trace(header(model={"num_heads": 1 << 32}), []), "model.num_heads"),
    "vectors of 2^32": Hostile(lambda: trace(header(model={"head_dim": 1 << 32}), []), "model.head_dim"),
    "a hundred groups": Hostile(
        lambda: trace(
            header(
                model={"num_layers": 100, "sliding_windows": [None] * 100},
                block_groups=[
                    {"layers": [i], "first_block": i, "num_blocks": 1, "kv_bytes_per_token": 1} for i in range(100)
                ],
            ),
            [],
        ),
        "100 block groups",
    ),
    "windows of too few layers": Hostile(
        lambda: trace(header(model={"sliding_windows": []}), []), "model.sliding_windows"
    ),
    "sinks of too few heads": Hostile(lambda: trace(header(model={"sinks": [[0.0, 0.0]]}), []), "model.sinks"),
    "a head that does not exist": Hostile(
        lambda: trace(
            header(
                model={
                    "heads": [{"pattern": "x", "layer": 9, "head": 0, "mean_weight": 0.0, "uniform": 0.0, "queries": 1}]
                }
            ),
            [],
        ),
        "model.heads",
    ),
    "too few prompt texts": Hostile(lambda: _one(submit(prompt_token_bytes=[b"a"])), "stand for 1 text"),
    "a rank without scores": Hostile(
        lambda: _one(submit(), {"type": "rank", "request_id": "r", "seq_ids": [0], "scores": [], "num_returned": 0}),
        "contradicts the state",
    ),
    "a batch beyond all tokens": Hostile(
        lambda: _one(
            submit(),
            batch=[
                {
                    "seq_id": 0,
                    "phase": "decode",
                    "start": 1 << 52,
                    "token_ids": [1],
                    "context_len": (1 << 52) + 1,
                    "samples": True,
                }
            ],
        ),
        "its batch has positions",
    ),
    "the same sequence twice": Hostile(lambda: _one(submit(), submit()), "exists already"),
    "a block at an occupied position": Hostile(lambda: _one(*HELD_SMALL, on_block("allocate", 1)), "no copy follows"),
    "a shared block at an occupied position": Hostile(
        lambda: _one(*HELD_SMALL, on_block("share", 0, revived=False)), "is at logical block 0 already"
    ),
    "a copy of a block to itself": Hostile(
        lambda: _one(*HELD_SMALL, fork(0, 1), {"type": "copy", "seq_id": 0, "logical": 0, "src": 0, "dst": 0}),
        "a copy must directly follow the allocation",
    ),
    "a fork of a waiting sequence": Hostile(lambda: _one(submit(), fork(0, 1)), "only a running one forks"),
    "an infinite time": Hostile(lambda: _one(timing={"at": float("inf")}), "timing.at"),
    "a time that is NaN": Hostile(lambda: _one(timing={"at": 0.0, "forward": float("nan")}), "timing.forward"),
    "a missing queue position": Hostile(lambda: _one(submit(queue_position=5)), "no position 5"),
    "an unknown operation": Hostile(lambda: _one({"type": "explode"}), "not a valid StepRecord"),
    "a group with an unknown field": Hostile(
        lambda: trace(
            header(
                block_groups=[
                    {"layers": [0], "first_block": 0, "num_blocks": 4, "kv_bytes_per_token": 16, "colour": "red"}
                ]
            ),
            [record(0, [submit()])],
        ),
        None,
    ),
    "an operation without its fields": Hostile(lambda: _one({"type": "discard"}), "not a valid StepRecord"),
    "text instead of a number": Hostile(lambda: _one(submit("0")), "not a valid StepRecord"),  # type: ignore[arg-type]
    "text that is not UTF-8": Hostile(lambda: _damaged_text("request_id"), "not a valid StepRecord"),
    "two headers": Hostile(lambda: trace(header(), []) + trace(header(), [])[8:] + frame(RECORD, b"\x80"), None),
    "3,000 forks of 60,000 tokens": Hostile(
        lambda: _one(submit(0, MANY), admit(), *(fork(0, i) for i in range(1, 3000))), "would copy"
    ),
    "tokens written repeatedly": Hostile(
        lambda: _repeat(HELD, lambda _: [write(MANY), {"type": "discard", "seq_id": 0}], LARGE), "would copy"
    ),
    "a large block copied repeatedly": Hostile(
        lambda: _repeat([*HELD, write(MANY), fork(0, 1)], _shared_copies, LARGE), "would copy"
    ),
    "a large block swapped repeatedly": Hostile(
        lambda: _repeat([*HELD, write(MANY)], _swaps, {**LARGE, "swap_space": 4}), "would copy"
    ),
    "a long table built repeatedly": Hostile(
        lambda: _repeat([submit(0, MANY), admit()], _gaps, {"block_size": 1, "num_blocks": 4}), "would copy"
    ),
    "forced tokens in reverse order": Hostile(
        lambda: _repeat(
            [submit()],
            lambda n: [{"type": "choose", "seq_id": 0, "position": 100_000 - n, "token_id": 1, "token_bytes": b""}],
            {},
        ),
        None,
    ),
    "the head of a large queue": Hostile(
        lambda: _repeat(HELD[:2], _pool_walk, {"num_blocks": POOL}, max_bytes=MAX_BYTES // 4), None
    ),
    "the middle of a large queue": Hostile(
        lambda: _repeat(HELD[:2], _middle, {"num_blocks": POOL}, max_bytes=MAX_BYTES // 4), None
    ),
    "a large pool and a large store": Hostile(
        lambda: _repeat([], lambda _: [], {"num_blocks": POOL, "swap_space": POOL}, num_rounds=1), None
    ),
    "many short records": Hostile(_many_records, None),
    "many waiting sequences": Hostile(_many_waiting, None),
    "many captures of one layer": Hostile(_capture_of_layers, None),
    "an empty array with huge dimensions": Hostile(_empty_but_wide, None),
    "a keyframe of unknown sequences": Hostile(_lying_keyframe, None),
    "a keyframe without tables": Hostile(
        lambda: _lying_keyframe(
            block_groups=[{"layers": [0], "first_block": 0, "num_blocks": 4, "kv_bytes_per_token": 16}],
            blocks=[{"block_id": i} for i in range(4)],
            running=[0],
            waiting=[],
            sequences={0: {"seq_id": 0, "request_id": "r", "status": "running"}},
        ),
        None,
    ),
    "control characters": Hostile(lambda: _control_characters(), None),
}

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\n"


def _control_characters() -> bytes:
    """Put terminal control sequences into every text of a trace."""
    head = header(
        {"strategy": ESCAPE, "seed": ESCAPE},
        {"name": ESCAPE, "architecture": ESCAPE, "dtype": ESCAPE},
        generator=ESCAPE,
        created=ESCAPE,
        machine={"device": ESCAPE, "processor": ESCAPE, "num_threads": 1, "versions": {ESCAPE: ESCAPE}},
    )
    ops = [
        submit(request_id=ESCAPE, cache_salt=ESCAPE, sampling={ESCAPE: ESCAPE}),
        {"type": "finish", "seq_id": 0, "reason": "abort", "detail": ESCAPE},
    ]
    output = {"seq_id": 0, "token_id": 1, "token_bytes": ESCAPE.encode(), "text": ESCAPE, "logprob": 0.0, "top": []}
    return trace(head, [record(0, ops, outputs=[output], integrity=ESCAPE)])


def make_all() -> Iterator[tuple[str, bytes, str | None]]:
    """Yield the name and bytes of every trace, and the expected refusal."""
    for name, (make, refused) in TRACES.items():
        yield name, make(), refused
