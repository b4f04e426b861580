"""`kvtheater lesson`: list lessons, check them, write a template for a new one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from app.cli.lesson_record import add_parsers
from app.cli.options import UserError, add_command
from app.cli.terminal import say
from app.lessons.catalogue import Catalogue, lesson_files
from app.lessons.lesson import Ask, LessonError

_NEW = """\
+++
id = "{id}"
number = 0
minutes = 5
model = "bundled"
title = {{ en = "{title}", zh = "{title}" }}
prompts = {{ en = ["Once upon a time"], zh = ["春江潮水连海平，"] }}
config = {{ block_size = 4, num_blocks = 48, enforce_eager = true }}
sampling = {{ max_tokens = 8, ignore_eos = true }}
+++

## start

::: en
This is the prompt. Nothing has been computed yet.
:::

::: zh
提示词摆在这里，什么都还没算。
:::

show: stage
do: prefill

::: en
All [five](=prompt_tokens) [tokens](prompt) have a [key](k) and a [value](v) now.
:::

::: zh
[八](=prompt_tokens) 个[词元](prompt)都有了[键](k)和[值](v)。
:::

ask: keys_read
do: step 1

## yours

::: en
What happens with a block size of 1?
:::

::: zh
块大小改成 1 会怎样？
:::

sandbox:
"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "lesson",
        "list, check, write, export and record lessons",
        "  kvtheater lesson list\n"
        "  kvtheater lesson check my-lessons/first.md\n"
        "  kvtheater lesson new my-lessons/first.md\n"
        "  kvtheater serve --lessons my-lessons     files are read again while you write\n"
        "  kvtheater lesson export pages -o pages.html    one HTML file that needs no server\n"
        "  kvtheater lesson record -o recorded && kvtheater replay --lessons recorded    without a model\n",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the shipped lessons, and those of a folder")
    listing.add_argument("--lessons", type=Path, metavar="DIR", help="folder of your own lessons")
    listing.set_defaults(run=run_list)
    checking = actions.add_parser("check", help="play lessons on their model and report errors by line")
    checking.add_argument("file", nargs="*", type=Path, metavar="FILE", help="files or folders (default: all shipped)")
    checking.set_defaults(run=run_check)
    making = actions.add_parser("new", help="write a small lesson that passes the check")
    making.add_argument("file", type=Path, metavar="FILE", help="the Markdown file to write")
    making.set_defaults(run=run_new)
    add_parsers(actions)


def run_list(arguments: argparse.Namespace) -> int:
    """Print the lessons; exit status 1 if a file in the folders is not a lesson."""
    catalogue = Catalogue(_folder(arguments.lessons))
    for lesson in catalogue.lessons():
        count = sum(isinstance(item, Ask) for item in lesson.items)
        languages = ", ".join(lesson.languages)
        title = lesson.title.get("en", next(iter(lesson.title.values())))
        say(
            f"{lesson.number or '':>3}  {lesson.id:<24} {title}  ({lesson.minutes} min, {count} questions, {languages})"
        )
    errors = catalogue.errors()
    for path, error in errors:
        say(f"{path}: {error}", to=sys.stderr)
    return 1 if errors else 0


def run_check(arguments: argparse.Namespace) -> int:
    """Check lessons; exit status 1 if one has an error."""
    from app.lessons.catalogue import shipped_folder

    paths = [file for path in arguments.file or [shipped_folder()] for file in _lessons_at(path)]
    if not paths:
        raise UserError("there is no lesson to check")
    return max(_check_one(path) for path in paths)


def run_new(arguments: argparse.Namespace) -> int:
    """Write a template of a lesson."""
    path: Path = arguments.file if arguments.file.suffix else arguments.file.with_suffix(".md")
    name = "".join(letter if letter.isalnum() else "-" for letter in path.stem.lower()).strip("-") or "lesson"
    title = path.stem.replace("-", " ").replace("_", " ").capitalize()
    text = _NEW.format(id=name, title=title)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path} exists already; choose another name") from None
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error
    say(f"{path}: show it with kvtheater serve --lessons {path.parent}, check it with kvtheater lesson check {path}")
    return 0


def _check_one(path: Path) -> int:
    from app.ground.settings import ServerSettings
    from app.lessons.check import changed_prompts, check
    from app.lessons.pace import minutes, minutes_more
    from app.lessons.parse import read_lesson
    from app.models.live_engine import engine_builder
    from engine.model.errors import ModelError
    from engine.model.loader import load_model
    from engine.setup.machine import measure_roofs

    max_bytes, builders = ServerSettings().max_pool_bytes, {}
    try:
        lesson = read_lesson(path)
        for name in lesson.models:
            model = load_model(name)
            builders[name] = engine_builder(model, max_bytes)
    except LessonError as error:
        say(f"{path}:{error.line}: {error.sentence}")
        return 1
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    except ModelError as error:
        raise UserError(f"{path}: its model {name}: {error}") from error
    if lesson.wants_roofs:
        measure_roofs(model.device, model.dtype)
    for note in changed_prompts(lesson):
        say(f"{path}:{note.line}: {note.sentence}")
    errors = check(lesson, builders.__getitem__)
    for found in errors:
        say(f"{path}:{found.line}: {found.sentence}")
    if not errors:
        more = f", and {minutes_more(lesson):.0f} more if there is time" if lesson.num_optional else ""
        say(f"{path}: valid in {', '.join(lesson.languages)}; takes about {minutes(lesson):.0f} min{more}")
    return 1 if errors else 0


def _lessons_at(path: Path) -> list[Path]:
    return lesson_files(path) if path.is_dir() else [path]


def _folder(path: Path | None) -> Path | None:
    if path is not None and not path.is_dir():
        raise UserError(f"{path} is not a folder")
    return path
