"""Fuzz both readers with changed traces: `python -m tests.fuzz --seconds 600 --seed 1`.

Every file is read by Python (checked, folded, explained, compared, exported, summarized) in a process with a bound on
its memory, and by the page's reader under node. Files that crash one, take it too long, or make the two disagree are
saved.
"""

import argparse
import sys
from pathlib import Path

from tests.fuzz.run import fuzz


def main() -> int:
    """Run the fuzzer; exit status 1 if there was a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0, metavar="N", help="how long (default: 600)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the changes (default: 0)")
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path("artifacts/fuzz"),
        metavar="DIR",
        help="where findings go (default: %(default)s)",
    )
    arguments = parser.parse_args()
    done = fuzz(arguments.seed, arguments.keep, seconds=arguments.seconds, tell=print)
    print(done)
    return 1 if done.findings else 0


if __name__ == "__main__":
    sys.exit(main())
