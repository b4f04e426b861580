"""`kvtheater`, and `python -m app`. An error while the program is imported is reported in one sentence too."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from app.ground.interrupts import STATUS, exit_on_interrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status as `app.cli.main` says, 130 when interrupted, 1 when it cannot load."""
    exit_on_interrupt()
    from app.ground.working import working

    working("starting")  # imports take seconds where a disk or a processor is slow
    try:
        from app.cli import main as command_line

        return command_line(argv)
    except KeyboardInterrupt:
        return _ended("stopped", STATUS)
    except MemoryError:
        return _ended("there is too little memory: about 1 GiB must be free to load torch", 1)
    except ImportError as error:
        hint = "free some memory (torch needs about 1 GiB), or install again"
        return _ended(f"{error.name or 'a library'} cannot be loaded ({' '.join(str(error).split())}): {hint}", 1)
    finally:
        working("")


def _ended(sentence: str, status: int) -> int:
    from app.ground.working import without_progress_line

    with without_progress_line():
        print(f"kvtheater: {sentence}", file=sys.stderr)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
