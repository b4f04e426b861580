"""`kvtheater prompts`: why did a prompt miss the prefix cache?"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.options import UserError, add_command
from app.cli.terminal import say
from app.ground.plain import to_json

if TYPE_CHECKING:
    from engine.prompts.readers import PromptFile
    from engine.prompts.report import Encode, Verdict
    from engine.prompts.savings import Saving

MOST_BREAKS = 10


def add_parser(commands: Any) -> None:
    from engine.prompts.policies import policies

    parser = add_command(
        commands,
        "prompts",
        "tell why prompts missed a prefix cache: where they part, the cause and the cost; exit status 1 where one does",
        "  kvtheater prompts session.jsonl\n"
        "  kvtheater prompts traffic.har --policy anthropic --request 12\n"
        "  kvtheater prompts session.jsonl --tokenizer Qwen/Qwen3-0.6B --html report.html\n"
        "  kvtheater prompts session.jsonl --num-blocks 4096 --json\n",
    )
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="request bodies, HAR, claude-tap, tracetap, LiteLLM or OpenTelemetry"
    )
    parser.add_argument("--policy", choices=list(policies()), default="vllm", help="whose cache (default: vllm)")
    parser.add_argument(
        "--num-blocks", type=int, metavar="N", help="of 16 tokens in vLLM's cache (default: nothing is evicted)"
    )
    parser.add_argument(
        "--tokenizer",
        metavar="MODEL",
        help="a hub name or a folder (default: the bundled model's, whose counts differ)",
    )
    parser.add_argument("--request", type=int, metavar="N", help="tell all of this request, counted from 1")
    parser.add_argument("--price", type=float, metavar="P", help="of a million tokens that are computed")
    parser.add_argument(
        "--cached-price", type=float, metavar="P", default=0.0, help="of a million that hit (default: 0)"
    )
    parser.add_argument("--private", action="store_true", help="lengths and places, no texts")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="as JSON")
    output.add_argument("--html", type=Path, metavar="FILE", help="as one HTML file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Play the file's requests. 0 where no prompt parts from what was cached."""
    from engine.prompts.private import without_texts
    from engine.prompts.readers import PromptError, read_prompts
    from engine.prompts.report import Player, Settings
    from engine.prompts.savings import savings

    if arguments.num_blocks is not None and arguments.num_blocks < 1:
        raise UserError(f"--num-blocks must be at least 1, not {arguments.num_blocks}")
    settings = Settings(arguments.policy, arguments.num_blocks)
    try:
        file = read_prompts(arguments.file)
        encode = _encode(arguments.tokenizer)
        player = Player(encode, settings)
        verdicts = [player.play(request) for request in file.requests]
        found = savings(file.requests, verdicts, encode, settings)
    except (PromptError, ValueError) as error:
        raise UserError(str(error)) from error
    if arguments.request is not None and not 1 <= arguments.request <= len(verdicts):
        raise UserError(f"--request must be between 1 and {len(verdicts)}, not {arguments.request}")
    if arguments.private:
        verdicts, found = without_texts(verdicts, found)
    if arguments.json:
        sys.stdout.write(to_json({"file": arguments.file.name, "requests": verdicts, "savings": found}).decode() + "\n")
    elif arguments.html:
        from app.prompts.page import report_page

        arguments.html.write_text(report_page(arguments.file.name, verdicts, found, arguments.policy), encoding="utf-8")
        say(f"{arguments.html}: {len(verdicts)} requests")
    elif arguments.request is not None:
        _tell_request(verdicts[arguments.request - 1], arguments.policy)
    else:
        _tell(file, verdicts, found, arguments)
    return int(any(verdict.parted for verdict in verdicts))


def _encode(name: str | None) -> Encode:
    from transformers import AutoTokenizer

    from engine.model.shipped import SHIPPED

    try:
        tokenizer = AutoTokenizer.from_pretrained(name or str(SHIPPED["bundled"].folder))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the tokenizer of {name}: {' '.join(str(error).split())[:300]}") from error
    return lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]  # type: ignore[no-any-return]


def _tell(file: PromptFile, verdicts: list[Verdict], found: list[Saving], arguments: argparse.Namespace) -> None:
    policy = arguments.policy
    total, hit = sum(v.num_tokens for v in verdicts), sum(v.hits[policy].num_tokens for v in verdicts)
    again = sum(v.num_again for v in verdicts)
    shapes = ", ".join(f"{count} × {name}" for name, count in file.shapes.items())
    say(f"{arguments.file.name}: {shapes}")
    for fault, count in file.unread.most_common():
        say(f"  not read: {count} × {fault}")
    sessions = len({verdict.session for verdict in verdicts})
    say(f"{len(verdicts)} requests of {sessions} sessions, {total:,} tokens; {_percent(hit, total)} hit under {policy}")
    for name in verdicts[0].hits:
        say(f"  {name:<12} {_percent(sum(v.hits[name].num_tokens for v in verdicts), total):>7} of the tokens hit")
    told = [v for v in verdicts if v.reported_cached is not None and v.reported_tokens]
    if told:
        share = _percent(sum(v.reported_cached or 0 for v in told), sum(v.reported_tokens or 0 for v in told))
        say(f"  {'reported':<12} {share:>7} by the server, of {len(told)} requests")
    say(f"computed again: {again:,} tokens" + _cost(again, arguments))
    breaks = sorted((v for v in verdicts if v.parted), key=lambda v: -v.num_again)
    for verdict in breaks[:MOST_BREAKS]:
        assert verdict.parted is not None
        place = f"request {verdict.request + 1} ({verdict.session}, turn {verdict.turn})"
        say(f"  {verdict.num_again:>8,}  {place}: {_said(verdict)}")
    if len(breaks) > MOST_BREAKS:
        say(f"  and {len(breaks) - MOST_BREAKS} more")
    limits = Counter(v.hits[policy].limit for v in verdicts if v.hits[policy].limit not in (None, "rounded"))
    for limit, count in limits.most_common():
        say(f"  {count} requests hit less: {LIMITS[str(limit)]}")
    for saving in found:
        say(f"would save {saving.num_tokens:,} tokens: {saving.proposal}")
        say(*(f"    {line}" for line in saving.example))


def _tell_request(verdict: Verdict, policy: str) -> None:
    say(f"request {verdict.request + 1}, line {verdict.line}: {verdict.model or 'no model'}, {verdict.session}")
    say(f"  {verdict.num_tokens:,} tokens, turn {verdict.turn}")
    for name, hit in verdict.hits.items():
        why = f": {LIMITS[hit.limit]} {hit.detail}".rstrip() if hit.limit else ""
        say(f"  {name:<12} {hit.num_tokens:>9,} hit{why}" + (" (may be gone already)" if hit.maybe else ""))
    if verdict.reported_cached is not None:
        say(f"  {'reported':<12} {verdict.reported_cached:>9,} of {verdict.reported_tokens or 0:,}")
    if (parted := verdict.parted) is not None:
        say(f"  parts from request {(verdict.closest or 0) + 1} at token {parted.token:,}: {_said(verdict)}")
        say(f"    {parted.earlier_path}: {parted.earlier_text!r}", f"    {parted.path}: {parted.text!r}")
    for span in verdict.spans:
        say(f"  {span.num_tokens:>9,}  {FATES[span.fate]:<28} {span.path}")


def _said(verdict: Verdict) -> str:
    assert verdict.parted is not None
    detail = f" ({verdict.parted.detail})" if verdict.parted.detail else ""
    return f"{CAUSES[verdict.parted.cause]}{detail}, at {verdict.parted.path}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


def _cost(tokens: int, arguments: argparse.Namespace) -> str:
    if arguments.price is None:
        return ""
    return f", {tokens * (arguments.price - arguments.cached_price) / 1e6:,.2f} more than if they had hit"


CAUSES = {
    "tools_added": "tools were added",
    "tools_removed": "tools were removed",
    "tools_replaced": "other tools",
    "tools_reordered": "the tools came in another order",
    "tool_changed": "a tool was described differently",
    "schema_keys_reordered": "the keys of a schema came in another order",
    "volatile_text": "only what changes by itself differs",
    "system_changed": "another system prompt",
    "reasoning_dropped": "reasoning was left out of the history",
    "image_changed": "another image",
    "last_turn_marker": "the last message carried what earlier ones do not",
    "messages_dropped": "earlier messages were left out",
    "message_trimmed": "an earlier message was cut",
    "history_summarised": "the history was summarised",
    "message_edited": "an earlier message was edited",
    "other_model": "another model",
    "not_known": "cause not known",
}
LIMITS = {
    "expired": "nobody asked for it in time",
    "too_short": "too short to be cached",
    "no_breakpoint": "no cache_control",
    "breakpoint_out_of_reach": "the last cache_control is too many blocks away",
    "other_slot": "another prompt was in the slot",
    "evicted": "evicted",
    "rounded": "whole units only",
}
FATES = {
    "hit": "hit",
    "first": "computed for the first time",
    "again": "computed again: it changed",
    "lost": "computed again: it was gone",
    "not_cacheable": "cannot be cached",
}
