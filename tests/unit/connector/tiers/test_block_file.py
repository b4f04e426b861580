"""Block files: changed, truncated and foreign files are refused."""

import os
from pathlib import Path

import pytest

from engine.connector.tiers.block_file import HEADER_BYTES, READING, BadBlock, header_of, read_block, write_all
from tests.unit.connector.tiers.blocks import key, payload

BLOCK_FILE = header_of(key(1), payload(1, 64)) + payload(1, 64)


def read(path: Path, content: bytes, max_bytes: int = 10**6) -> bytes:
    path.write_bytes(content)
    path.chmod(0o600)
    file = os.open(path, READING)
    try:
        return read_block(file, key(1), max_bytes)
    finally:
        os.close(file)


def test_a_stored_block_loads_unchanged(tmp_path: Path) -> None:
    assert len(BLOCK_FILE) == HEADER_BYTES + 64 and HEADER_BYTES == 44
    assert read(tmp_path / "a", BLOCK_FILE) == payload(1, 64)
    assert read(tmp_path / "b", header_of(key(1), b"")) == b""


def test_a_changed_bit_in_any_byte_is_found(tmp_path: Path) -> None:
    for at in range(len(BLOCK_FILE)):
        damaged = bytearray(BLOCK_FILE)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(BadBlock) as bad:
            read(tmp_path / "a", bytes(damaged))
        assert bad.value.reason == ("bad_header" if at < HEADER_BYTES else "checksum")


def test_a_block_file_of_wrong_length_is_found(tmp_path: Path) -> None:
    for content in [*(BLOCK_FILE[:size] for size in range(len(BLOCK_FILE))), BLOCK_FILE + b"\0"]:
        with pytest.raises(BadBlock) as bad:
            read(tmp_path / "a", content)
        assert bad.value.reason == "truncated"


def test_a_valid_block_of_another_key_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(BadBlock) as bad:
        read(tmp_path / "a", header_of(key(2), payload(2)) + payload(2))
    assert (bad.value.reason, bad.value.detail) == ("wrong_key", key(2).hex())


def test_a_file_of_zeros_is_refused(tmp_path: Path) -> None:
    """Following a power failure a file may be all zeros."""
    with pytest.raises(BadBlock) as bad:
        read(tmp_path / "a", bytes(len(BLOCK_FILE)))
    assert bad.value.reason == "bad_header"


def test_a_block_over_the_size_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadBlock):
        read(tmp_path / "a", BLOCK_FILE, max_bytes=63)


def test_partial_writes_are_completed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The system may write only a part, for instance after a signal."""
    written: list[bytes] = []

    def some(_: int, parts: list[memoryview]) -> int:
        taken = b"".join(parts)[:7]
        written.append(taken)
        return len(taken)

    monkeypatch.setattr(os, "writev", some)
    write_all(0, [b"head", b"", b"a payload of some bytes"])
    assert b"".join(written) == b"heada payload of some bytes"
    assert [len(taken) for taken in written] == [7, 7, 7, 6]


def test_partial_reads_are_completed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Linux reads at most 2 GiB at once."""
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: real(file, min(size, 44), at))
    assert read(tmp_path / "a", BLOCK_FILE) == payload(1, 64)
