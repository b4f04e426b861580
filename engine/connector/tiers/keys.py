"""Keys of blocks outside the pool, in a store shared by models, settings and runs.

    weights, configuration, dtypes, block size, reaches ──► layout digest, once an engine
    tokens, all before them, cache salt ──► block hash      (`engine/cache/prefix_cache.py`)
    key = H(layout; block hash, index of the group of layers)

In the pool a block hash is enough, because everything in it was computed by one model with one configuration. Out here
equal keys must mean equal bytes, so whatever changes a key vector, a value vector or how they lie is in the layout.
Missing a block that would have fitted costs a prefill; loading one that does not fit would be a wrong answer. So what
might matter is in it too.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import NamedTuple

FORMAT_VERSION = 1  # of the payload and its file format; counts up when either changes
KEY_BYTES = 16  # as a block hash: more would promise more than the hash inside holds
DIGEST_BYTES = 32

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]


class NamedBytes(NamedTuple):
    """Tensor of a model as its bytes in memory (row-major)."""

    name: str
    dtype: str
    shape: Sequence[int]
    data: bytes | memoryview


class GroupFacts(NamedTuple):
    """A group of layers that share their blocks, and what its payload holds."""

    layers: Sequence[int]
    reaches: Sequence[tuple[int | None, int]]  # of each layer: (window or None, sinks), an `AttentionSpan`
    bytes_per_block: int


class LayoutFacts(NamedTuple):
    """Everything that keys and values depend on, apart from the tokens."""

    weights: bytes  # `weights_digest`, of every tensor that the model reads
    config: Mapping[str, Json]  # of the model: heads, widths, rotary settings, windows, softcaps, …
    numerics: Mapping[str, str]  # dtype it computes in, kind of device, versions of what computes
    kv_cache_dtype: str  # as the store keeps them
    block_size: int
    groups: Sequence[GroupFacts]  # all of them: what one layer sees is in the keys of the layers above it


def weights_digest(tensors: Iterable[NamedBytes]) -> bytes:
    """DIGEST_BYTES bytes for all parameters and buffers of a model; the order in which they come does not matter.

    Every byte is read: two fine-tunes of one model have names, shapes and most tensors in common. A core hashes about
    0.8 GiB a second (blake2b, measured), two cores twice that, since hashing releases the interpreter's lock: 12 ms
    for the bundled model's 9.4 MiB, a second or so for 1 GiB.
    """
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        digests = sorted(pool.map(_tensor_digest, tensors))
    return blake2b(b"".join(digests), digest_size=DIGEST_BYTES, person=b"kvt-weights").digest()


def _tensor_digest(tensor: NamedBytes) -> bytes:
    head = json.dumps([tensor.name, tensor.dtype, list(tensor.shape)]).encode()
    digest = blake2b(struct.pack("<Q", len(head)) + head, digest_size=DIGEST_BYTES, person=b"kvt-tensor")
    digest.update(tensor.data)
    return digest.digest()


def layout_digest(facts: LayoutFacts) -> bytes:
    """DIGEST_BYTES bytes, once an engine. Names in `config` may come in any order.

    Raises:
        TypeError: a fact is not what JSON can say.
    """
    facts_by_name = {
        "format": FORMAT_VERSION,
        "weights": facts.weights.hex(),
        "config": facts.config,
        "numerics": facts.numerics,
        "kv_cache_dtype": facts.kv_cache_dtype,
        "block_size": facts.block_size,
        "groups": [[list(g.layers), [list(r) for r in g.reaches], g.bytes_per_block] for g in facts.groups],
    }
    # NaN and infinity are written as words, which is as good as a number for telling two configurations apart
    text = json.dumps(facts_by_name, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=DIGEST_BYTES, person=b"kvt-layout").digest()


def store_key(layout: bytes, block_hash: bytes, group: int) -> bytes:
    """Return the name (KEY_BYTES bytes) of one group's full block. `layout` from `layout_digest`, keyed into the
    hash.
    """
    body = struct.pack("<I", group) + block_hash
    return blake2b(body, digest_size=KEY_BYTES, key=layout, person=b"kvt-block").digest()
