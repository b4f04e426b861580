"""Process that stores into, evicts from and reads a folder until it is killed. Prints `wrong` after a wrong read.

python -m tests.unit.connector.tiers.one_of_two FOLDER MAX_BYTES SEED
"""

import random
import sys
from pathlib import Path

from engine.connector.tiers.disk_tier import DiskTier
from tests.unit.connector.tiers.blocks import key, payload

KEYS = 200
SIZES = (1000, 9000, 30000)


def content(n: int) -> bytes:
    """Return the content of the n-th key, in one of three sizes."""
    return payload(n, SIZES[n % len(SIZES)])


def main(folder: Path, max_bytes: int, seed: int) -> None:
    chosen, tier = random.Random(seed), DiskTier(folder, max_bytes)
    print("begun", flush=True)
    while True:
        n = chosen.randrange(KEYS)
        if chosen.random() < 0.5:
            tier.store(key(n), content(n))
        elif tier.load(key(n)) not in (None, content(n)):
            print("wrong", flush=True)
        if tier.figures().drops:  # a kill may lose a block and never leaves a partial one
            print("wrong", tier.stats.drops(), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
