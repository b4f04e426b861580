"""Fuzz both readers with mutated traces: `python -m tests.fuzz --seconds 600 --seed 1`.

Every file is checked, folded, explained, compared, exported and summarized by Python in a process with limited memory,
and read by the page's reader under node. Files that crash or delay one, or make the two disagree, are saved.
"""

import argparse
import sys
from pathlib import Path

from tests.fuzz.run import fuzz


def main() -> int:
    """Run the fuzzer, and return exit status 1 if there is a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0, metavar="N", help="duration (default: 600)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the mutations (default: 0)")
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path("artifacts/fuzz"),
        metavar="DIR",
        help="folder of findings (default: %(default)s)",
    )
    arguments = parser.parse_args()
    outcome = fuzz(arguments.seed, arguments.keep, seconds=arguments.seconds, report=print)
    print(outcome)
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
