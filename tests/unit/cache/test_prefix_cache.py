"""Chained block hashes, which are equal for equal prefixes under the same salt."""

from typing import Any

import pytest

from engine.cache import prefix_cache
from engine.cache.prefix_cache import HASH_BYTES, HashChain, hash_block


def test_a_hash_covers_all_earlier_tokens() -> None:
    first, other = hash_block(None, [1, 2]), hash_block(None, [9, 9])
    assert len(first) == HASH_BYTES
    assert hash_block(first, [3, 4]) == hash_block(hash_block(None, [1, 2]), [3, 4])
    assert len({first, other, hash_block(first, [3, 4]), hash_block(other, [3, 4]), hash_block(None, [3, 4])}) == 5


def test_the_hashed_encoding_is_unambiguous() -> None:
    """Token boundaries, the salt's length, an absent or empty salt, and the parent all change the hash."""
    parent = hash_block(None, [1])
    hashes = [
        hash_block(None, [1, 23]),
        hash_block(None, [12, 3]),
        hash_block(None, [1, 2, 3]),
        hash_block(None, [256]),
        hash_block(None, [1, 0]),
        hash_block(None, [1], ""),
        hash_block(None, [1], "a"),
        hash_block(None, [1], "a\0"),
        hash_block(parent, [1]),
        hash_block(None, [1], parent.decode("latin-1")),
    ]
    assert len({parent, *hashes}) == len(hashes) + 1


def test_the_salt_enters_at_the_first_block_and_is_inherited() -> None:
    tokens = [1, 2, 3, 4]
    plain, salted = HashChain(2, None), HashChain(2, "tenant")
    assert plain.hash_at(0, tokens) != salted.hash_at(0, tokens)
    assert plain.hash_at(1, tokens) != salted.hash_at(1, tokens)
    assert salted.hash_at(1, tokens) == hash_block(salted.hash_at(0, tokens), [3, 4])


def test_no_token_is_hashed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three full blocks are hashed once each while 7 tokens arrive one by one."""
    hashed: list[list[int]] = []

    def counting(parent_hash: bytes | None, token_ids: list[int], *rest: Any) -> bytes:
        hashed.append(list(token_ids))
        return hash_block(parent_hash, token_ids, *rest)

    monkeypatch.setattr(prefix_cache, "hash_block", counting)
    chain, tokens = HashChain(2, None), []
    for token in range(7):
        tokens.append(token)
        for logical in range(len(tokens) // 2):
            chain.hash_at(logical, tokens)
    assert hashed == [[0, 1], [2, 3], [4, 5]]
    fork = chain.copy()
    tokens.append(7)
    assert fork.hash_at(3, tokens) == chain.hash_at(3, tokens)
    assert chain.parent_of(0) is None and chain.parent_of(3) == chain.hash_at(2, tokens)
