"""Program that writes the tables of a log. It runs in its own process, to use no time and memory of the server.

python -m engine.trace.query.make LOG TARGET        prints its progress as lines of JSON
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from engine.trace.log import TraceReader
from engine.trace.query.table_cache import make

NICE = 10  # niceness: interactive work has priority


def main() -> None:
    """Write the tables of one log."""
    parser = argparse.ArgumentParser(description="Write a log as tables for SQL queries.")
    parser.add_argument("log", type=Path)
    parser.add_argument("target", type=Path, help="index file to write; the tables are written to the same folder")
    arguments = parser.parse_args()
    if hasattr(os, "nice"):
        os.nice(NICE)

    def report(count: int) -> None:
        print(json.dumps({"num_records": count}), flush=True)

    try:
        with TraceReader(arguments.log, verify=False) as log:
            make(log, arguments.target, report)
    except (OSError, ValueError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
