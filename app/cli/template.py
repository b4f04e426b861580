"""`kvtheater template check`: does a chat template keep the prefix that a cache holds?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.options import UserError, add_command
from app.cli.terminal import say
from app.ground.plain import to_json

if TYPE_CHECKING:
    from engine.model.template_check import ChatTemplate, Outcome

DEFAULT_TURNS = 4
# of a template that comes without a tokenizer
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def add_parser(commands: Any) -> None:
    template = add_command(
        commands, "template", "look into a chat template", "  kvtheater template check Qwen/Qwen3-0.6B\n"
    )
    what = template.add_subparsers(title="commands", metavar="COMMAND", required=True)
    parser = add_command(
        what,
        "check",
        "check whether a chat template only appends, turn by turn; exit status 1 where it does not",
        "  kvtheater template check Qwen/Qwen3-0.6B\n"
        "  kvtheater template check chat_template.jinja --turns 20\n"
        "  kvtheater template check ./my-model --json\n",
    )
    parser.add_argument("template", metavar="MODEL|FILE", help="a hub name, a folder with a tokenizer, or a Jinja file")
    parser.add_argument(
        "--turns", type=int, default=DEFAULT_TURNS, metavar="N", help=f"of each conversation (default: {DEFAULT_TURNS})"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check it. 0 where every case that the template does not refuse is append-only."""
    from engine.model.template_check import check_template

    if arguments.turns < 2:
        raise UserError(f"--turns must be at least 2, not {arguments.turns}")
    outcomes = check_template(opened(arguments.template), arguments.turns)
    if arguments.json:
        sys.stdout.write(to_json(outcomes).decode() + "\n")
    else:
        say(f"{arguments.template}: {len(outcomes)} cases of {arguments.turns} turns")
        for outcome in outcomes:
            _tell(outcome)
    return int(any(outcome.verdict == "breaks" and not outcome.by_client for outcome in outcomes))


def opened(name: str) -> ChatTemplate:
    """A Jinja file with the bundled model's tokenizer, or a model's own template and tokenizer.

    Raises:
        UserError: there is none.
    """
    from transformers import AutoTokenizer

    from engine.model.shipped import SHIPPED
    from engine.model.template_check import ChatTemplate

    path = Path(name)
    is_file = path.is_file()
    try:
        source = path.read_text(encoding="utf-8") if is_file else ""
        tokenizer = AutoTokenizer.from_pretrained(str(SHIPPED["bundled"].folder) if is_file else name)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {name}: {' '.join(str(error).split())[:300]}") from error
    if not is_file:
        if not tokenizer.chat_template:
            raise UserError(f"{name} has no chat template")
        source = tokenizer.get_chat_template()
    special = SPECIAL_TOKENS if is_file else {k: str(v) for k, v in tokenizer.special_tokens_map.items()}
    return ChatTemplate(source, lambda text: tokenizer(text, add_special_tokens=False)["input_ids"], special)


def _tell(outcome: Outcome) -> None:
    again = f"{outcome.tokens_again:,} of {outcome.tokens:,} tokens computed again" if outcome.tokens_again else ""
    says = f"it says: {outcome.reason}" if outcome.reason else again
    say(f"  {outcome.verdict:<12} {outcome.case:<33} {says}".rstrip())
    if (first := outcome.first) is None:
        return
    where = "in its answer" if first.turns_back == 0 else f"{first.turns_back} turns before"
    say(f"      after turn {first.turn}, {where}, at token {first.token}; {outcome.num_breaks} breaks in all")
    say(f"        cached    {first.cached!r}", f"        rendered  {first.rendered!r}")
    if outcome.by_client:
        say("      it is the client that sends back less than it got")
    if outcome.avoided_by:
        say(f"      avoided by {outcome.avoided_by}")
