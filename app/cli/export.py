"""`kvtheater export`: a recorded run as one HTML file, or the page with all its recordings as a site."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from app.cli.options import UserError, add_command, file_errors, user_errors, write_atomically
from app.cli.reading import damage_status, open_trace
from app.cli.terminal import say


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "export",
        "write a recorded run as one HTML file that needs no server and no network, or a whole site",
        "  kvtheater export run.kvtrace -o run.html\n"
        "  kvtheater export --site public --url https://example.org/kv/    for any static host\n"
        "  kvtheater generate 'Once upon a time' --record run.kvtrace && kvtheater export run.kvtrace\n",
    )
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE")
    parser.add_argument("--site", type=Path, metavar="DIR", help="write a folder with the page and its recordings")
    parser.add_argument("--url", default="", metavar="URL", help="address of the site, for link previews")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the HTML file (default: FILE with the suffix .html)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite the file or the site")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Export. Exit status 0 if the trace is sound, 1 if it is damaged (the part before the damage is exported)."""
    if arguments.site is not None:
        return _export_site(arguments)
    if arguments.file is None:
        raise UserError("name the recording to export, or a folder with --site")
    from app.page.onefile import TooLarge, export_page

    path: Path = arguments.file
    output: Path = arguments.output or path.with_suffix(".html")
    if output.exists() and not arguments.force:
        raise UserError(f"{output} exists already; choose another name, or --force to overwrite it")
    with user_errors(TooLarge, of=path), open_trace(path) as log:
        page, damage = export_page(log), log.damage
    write_atomically(output, page)
    say(f"{output}: {len(page):,} bytes")
    return damage_status(path, damage)


def _export_site(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.site.resolve()
    if arguments.file is not None:
        raise UserError("--site exports the shipped recordings; omit FILE")
    from app.site.export import is_site, write_site

    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        if not is_site(folder):
            raise UserError(f"{folder} exists and is not a site; choose another name")
        if not arguments.force:
            raise UserError(f"{folder} has a site already; choose another name, or --force to replace it")
    from engine.model.loader import load_model
    from engine.model.shipped import BUNDLED

    with file_errors("write", folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", suffix=".part", dir=folder.parent) as name:
            new, old = Path(name) / "new", Path(name) / "old"
            write_site(new, load_model(BUNDLED), arguments.url, say)
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    say(f"{folder}: {len(files)} files, {sum(path.stat().st_size for path in files):,} bytes")
    return 0
