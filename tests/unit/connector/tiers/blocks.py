"""Keys, contents and files of blocks for the tests of tiers."""

from hashlib import blake2b
from pathlib import Path

from engine.connector.tiers.keys import KEY_BYTES
from engine.connector.tiers.shared_folder import path_of


def key(n: int) -> bytes:
    """Return the n-th key."""
    return blake2b(n.to_bytes(8), digest_size=KEY_BYTES).digest()


def payload(n: int, size: int = 1000) -> bytes:
    """Return the content of the n-th key, which differs from that of other keys in nearly every byte."""
    return blake2b(n.to_bytes(8)).digest() * (size // 64) + bytes(size % 64)


def file_of(folder: Path, n: int) -> Path:
    """Return the path of the n-th key's block."""
    return folder.joinpath(*path_of(key(n)))


def block_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("??/*.kv"))
