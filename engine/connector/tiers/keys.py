"""Keys of blocks outside the pool, in a store that models, settings and runs share.

    weights, configuration, dtypes, block size, spans ──► layout digest, once per engine
    tokens, all tokens before them, cache salt ──► block hash      (`engine/cache/prefix_cache.py`)
    key = H(layout; block hash, index of the group of layers)

In the pool a block hash suffices, because one model with one configuration computed all blocks. In the store, equal
keys must mean equal bytes, so the layout includes everything that changes keys, values or their positions in a block.
It also includes facts that only may change them: a missed block costs a prefill, but a wrong one a wrong output.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import NamedTuple

FORMAT_VERSION = 1  # version of the payload and of its file format
KEY_BYTES = 16  # like a block hash, which limits the collision resistance
DIGEST_BYTES = 32

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]


class NamedBytes(NamedTuple):
    """Tensor of a model as its bytes in memory (row-major)."""

    name: str
    dtype: str
    shape: Sequence[int]
    data: bytes | memoryview


class GroupFacts(NamedTuple):
    """Group of layers that share their blocks."""

    layers: Sequence[int]
    reaches: Sequence[tuple[int | None, int]]  # attention span of each layer: (window or None, sinks)
    bytes_per_block: int


class LayoutFacts(NamedTuple):
    """Everything on which keys and values depend, except the tokens."""

    weights: bytes  # `weights_digest` of all tensors that the model reads
    config: Mapping[str, Json]  # configuration of the model: heads, widths, rotary settings, windows, softcaps, …
    numerics: Mapping[str, str]  # compute dtype, device type, versions of the libraries
    kv_cache_dtype: str
    block_size: int
    groups: Sequence[GroupFacts]  # all groups, because the span of a layer affects the keys of later layers


def weights_digest(tensors: Iterable[NamedBytes]) -> bytes:
    """Return the digest (DIGEST_BYTES bytes) of all parameters and buffers of a model, in any order.

    Every byte is read, because two fine-tunes of a model have the same names and shapes, and most tensors in common. A
    core hashes about 0.8 GiB per second (blake2b, measured), and two cores twice as much, because hashing releases the
    interpreter's lock. It takes 12 ms for the 9.4 MiB of the bundled model, and about a second for 1 GiB.
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
    """Return the digest (DIGEST_BYTES bytes) of the facts. The order of the names in `config` has no effect.

    Raises:
        TypeError: a fact cannot be encoded as JSON.
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
    # NaN and infinity are encoded as words, which also distinguish configurations
    text = json.dumps(facts_by_name, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=DIGEST_BYTES, person=b"kvt-layout").digest()


def store_key(layout: bytes, block_hash: bytes, group: int) -> bytes:
    """Return the key (KEY_BYTES bytes) of a group's full block. `layout`: from `layout_digest`, the key of the hash."""
    body = struct.pack("<I", group) + block_hash
    return blake2b(body, digest_size=KEY_BYTES, key=layout, person=b"kvt-block").digest()
