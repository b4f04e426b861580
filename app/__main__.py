"""Entry point of `kvtheater` and `python -m app`. Errors during imports are reported in one sentence, too."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from app.ground.interrupts import STATUS, exit_on_interrupt


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. Returns the exit status of `app.cli.main`, 130 if interrupted, or 1 if imports fail."""
    exit_on_interrupt()
    from app.ground.working import working

    working("starting")  # imports take seconds on a slow disk or processor
    try:
        from app.cli import main as command_line

        return command_line(argv)
    except KeyboardInterrupt:
        return _report("stopped", STATUS)
    except MemoryError:
        return _report("there is too little memory: about 1 GiB must be free to load torch", 1)
    except ImportError as error:
        hint = "free some memory (torch needs about 1 GiB), or install again"
        return _report(f"{error.name or 'a library'} cannot be loaded ({' '.join(str(error).split())}): {hint}", 1)
    finally:
        working("")


def _report(sentence: str, status: int) -> int:
    from app.ground.working import without_progress_line

    with without_progress_line():
        print(f"kvtheater: {sentence}", file=sys.stderr)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
