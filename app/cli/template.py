"""`kvtheater template check`: check whether a chat template is append-only, as prefix caching requires."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.options import UserError, add_command
from app.cli.terminal import say
from app.ground.plain import to_json

if TYPE_CHECKING:
    from engine.model.template_check import Outcome

DEFAULT_TURNS, MAX_TURNS = 4, 200  # every turn renders the whole conversation
FILES = (".jinja", ".jinja2", ".j2", ".gguf")  # suffixes that hub names do not have


def add_parser(commands: Any) -> None:
    template = add_command(
        commands, "template", "inspect a chat template", "  kvtheater template check Qwen/Qwen3-0.6B\n"
    )
    subcommands = template.add_subparsers(title="commands", metavar="COMMAND", required=True)
    parser = add_command(
        subcommands,
        "check",
        "check whether a chat template is append-only, turn by turn; exit status 1 if it is not",
        "  kvtheater template check Qwen/Qwen3-0.6B\n"
        "  kvtheater template check chat_template.jinja --turns 20\n"
        "  kvtheater template check ./my-model --json\n",
    )
    parser.add_argument(
        "template", metavar="MODEL|FILE", help="a hub name, a folder with a tokenizer, a GGUF file, or a Jinja file"
    )
    parser.add_argument(
        "--turns",
        type=int,
        default=DEFAULT_TURNS,
        metavar="N",
        help=f"turns of each conversation (default: {DEFAULT_TURNS})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check the template. Exit status 0 if every case that it does not reject is append-only, else 1."""
    if not 2 <= arguments.turns <= MAX_TURNS:
        raise UserError(f"--turns must be between 2 and {MAX_TURNS}, not {arguments.turns}")
    if _is_path(arguments.template) and not Path(arguments.template).expanduser().exists():
        raise UserError(f"there is no file or folder {arguments.template}")
    from engine.model.template_check import check_template, open_template

    try:
        template = open_template(arguments.template)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {arguments.template}: {' '.join(str(error).split())[:300]}") from error
    outcomes = check_template(template, arguments.turns)
    if arguments.json:
        sys.stdout.write(to_json(outcomes).decode() + "\n")
    else:
        say(f"{arguments.template}: {len(outcomes)} cases of {arguments.turns} turns")
        for outcome in outcomes:
            _print(outcome)
    return int(any(outcome.verdict == "breaks" and not outcome.by_client for outcome in outcomes))


def _is_path(name: str) -> bool:
    """Return whether `name` can only be a path. A hub name is one word, or two with a slash between them."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or name.endswith(FILES)


def _print(outcome: Outcome) -> None:
    again = f"{outcome.tokens_again:,} of {outcome.tokens:,} tokens computed again" if outcome.tokens_again else ""
    note = f"the template's error: {outcome.reason}" if outcome.reason else again
    say(f"  {outcome.verdict:<12} {outcome.case:<33} {note}".rstrip())
    if (first := outcome.first) is None:
        return
    where = "in its answer" if first.turns_back == 0 else f"{first.turns_back} turns earlier"
    say(f"      after turn {first.turn}, {where}, at token {first.token}; {outcome.num_breaks} breaks in all")
    say(f"        cached    {first.cached!r}", f"        rendered  {first.rendered!r}")
    if outcome.by_client:
        say("      cause: the client sends back less than it received")
    if outcome.avoided_by:
        say(f"      avoided by {outcome.avoided_by}")
