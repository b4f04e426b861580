"""The page's unit tests in node: `python -m tests.js`, or `python -m tests.js tests/js/log.test.mjs`."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from app.page.options import option_tables
from engine.options.words import languages, option_texts
from tools.node import node

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = sorted(path.relative_to(ROOT).as_posix() for path in Path(__file__).parent.glob("*.test.mjs"))


def run(files: list[str], *options: str, capture: bool = False) -> subprocess.CompletedProcess[str]:
    """Run test files with the options that the server puts into the page: tests/js/options.mjs reads them."""
    texts = {language: option_texts(language) for language in languages()}
    with tempfile.TemporaryDirectory(prefix="kvtheater-") as folder:
        path = Path(folder) / "options.json"
        path.write_text(json.dumps({"tables": option_tables(), "texts": texts}), encoding="utf-8")
        return subprocess.run(
            [node(), "--import", "./tests/js/options.mjs", "--test", *options, *files],
            cwd=ROOT,
            env={**os.environ, "KVTHEATER_OPTIONS": str(path)},
            capture_output=capture,
            text=True,
            timeout=600,
            check=False,
        )


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:] or FILES, "--test-reporter=dot").returncode)
