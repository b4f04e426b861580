"""`kvtheater prompts`: why a prompt missed the prefix cache."""

from __future__ import annotations

import argparse
import gc
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from app.cli.options import UserError, add_command
from app.cli.terminal import counted, say
from app.ground.plain import to_json
from app.prompts.tokenizers import parse_tokenizer
from app.prompts.words import percent, words
from engine.trace.messages import languages

if TYPE_CHECKING:
    from engine.prompts.readers import PromptFile, PromptRequest
    from engine.prompts.rendering import CannotRender
    from engine.prompts.report import Settings, Verdict
    from engine.prompts.savings import Saving
    from engine.prompts.tokens import Encode
    from engine.prompts.worth_keeping import Prefix
    from engine.simulate.cost import StepCost

MAX_BREAKS = 10


def add_parser(commands: Any) -> None:
    from engine.prompts.policies import policies

    parser = add_command(
        commands,
        "prompts",
        "explain why prompts missed a prefix cache: where they diverge, cause and cost; exit status 1 if one diverges",
        "  kvtheater prompts session.jsonl\n"
        "  kvtheater prompts traffic.har --policy anthropic --request 12\n"
        "  kvtheater prompts session.jsonl --tokenizer Qwen/Qwen3-0.6B --html report.html\n"
        "  kvtheater prompts session.jsonl --num-blocks 4096 --json\n",
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="request bodies as JSON lines, or a file of HAR, claude-tap, tracetap, LiteLLM or OpenTelemetry",
    )
    parser.add_argument(
        "--policy", choices=list(policies()), default="vllm", help="prefix cache whose rules apply (default: vllm)"
    )
    parser.add_argument(
        "--num-blocks", type=int, metavar="N", help="size of vLLM's pool, in blocks of 16 tokens (default: unlimited)"
    )
    parser.add_argument(
        "--tokenizer",
        metavar="[NAME=]MODEL",
        help="tokenizer (hub name, folder or GGUF file) and its name in the report; its chat template renders the "
        "requests (default: the bundled model's, whose counts differ)",
    )
    parser.add_argument("--request", type=int, metavar="N", help="print all details of this request, counted from 1")
    parser.add_argument("--price", type=float, metavar="P", help="price of a million computed tokens")
    parser.add_argument(
        "--cached-price", type=float, metavar="P", default=0.0, help="price of a million cached tokens (default: 0)"
    )
    parser.add_argument(
        "--model",
        metavar="ID",
        help="with --gpu: print seconds of prefill of this model (IDs: kvtheater simulate --help)",
    )
    parser.add_argument("--gpu", metavar="ID", help="with --model: the GPU")
    parser.add_argument("--private", action="store_true", help="print lengths and positions, no texts")
    parser.add_argument("--lang", choices=languages(), default="en", help="language of the HTML file (default: en)")
    parser.add_argument("--name", help="name of the file in the report (default: its own)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print JSON")
    output.add_argument("--html", type=Path, metavar="FILE", help="write one HTML file (-: to standard output)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Replay the file's requests. Exit status 0 if no prompt diverges from a cached one, else 1."""
    was_enabled = gc.isenabled()
    gc.disable()  # there are no reference cycles, so collections would traverse all segments and token lists in vain
    try:
        return _run(arguments)
    finally:
        if was_enabled:
            gc.enable()


def _run(arguments: argparse.Namespace) -> int:
    from engine.prompts.answers import with_answers
    from engine.prompts.private import without_reasons, without_texts
    from engine.prompts.readers import PromptError, read_prompts
    from engine.prompts.report import Settings
    from engine.prompts.savings import savings
    from engine.prompts.tokens import characters_of

    if arguments.num_blocks is not None and arguments.num_blocks < 1:
        raise UserError(f"--num-blocks must be at least 1, not {arguments.num_blocks}")
    settings = Settings(arguments.policy, arguments.num_blocks)
    tokenizer, model = parse_tokenizer(arguments.tokenizer) if arguments.tokenizer else (None, None)
    try:
        file = read_prompts(arguments.file, keep_bodies=bool(model))
        encode = characters_of if file.is_private else _encode(model)
        requests = with_answers(file.requests)
        verdicts, prefixes = _replay(requests, encode, settings)
        found = savings(requests, verdicts, encode, settings)
        by_template, refusal = None, None
        if not file.is_private:
            by_template, refusal = _replay_rendered(requests, model, encode, settings)
        verdicts, prefixes = by_template or (verdicts, prefixes)
    except (PromptError, ValueError) as error:
        reason = str(error).replace(model, tokenizer) if model and tokenizer else str(error)
        raise UserError(reason) from error
    if arguments.request is not None and not 1 <= arguments.request <= len(verdicts):
        raise UserError(f"--request must be between 1 and {len(verdicts)}, not {arguments.request}")
    language = arguments.lang if arguments.html else "en"
    not_rendered = ""
    if refusal is not None:
        not_rendered = words(language).refusal(refusal, with_reason=not arguments.private)
    elif by_template is None and tokenizer and not file.is_private:
        not_rendered = words(language)("no_template", tokenizer=tokenizer)
    if arguments.private:
        verdicts, found = without_texts(verdicts, found)
        file = file._replace(unread=without_reasons(file.unread))
    if arguments.json:
        report = {"file": arguments.file.name, "requests": verdicts, "savings": found, "prefixes": prefixes}
        report |= {"rendered": by_template is not None, "not_rendered": not_rendered}
        sys.stdout.write(to_json(report).decode() + "\n")
    elif arguments.html:
        from app.prompts.report_page import CountedUnit, report_page

        name = arguments.name or arguments.file.name
        counted: CountedUnit = "characters" if file.is_private else "rendered" if by_template else "parts"
        notes = [not_rendered, *_left_out(verdicts, language)]
        costs = _costs(verdicts, arguments, language)
        page = report_page(
            name, verdicts, found, prefixes, arguments.policy, tokenizer, language, counted, notes, costs
        )
        if str(arguments.html) == "-":
            sys.stdout.write(page)
        else:
            say(f"{arguments.html}: {len(verdicts)} requests; {_exported_texts(verdicts, found, arguments.private)}")
            arguments.html.write_text(page, encoding="utf-8")
    elif arguments.request is not None:
        _print_request(verdicts[arguments.request - 1], arguments.policy)
    else:
        how = not_rendered if by_template is None else words("en")("rendered")
        _print_report(file, verdicts, found, prefixes, arguments, how)
    return int(any(verdict.parted for verdict in verdicts))


def _encode(name: str | None) -> Encode:
    from engine.prompts.tokens import open_encoder

    return open_encoder(name)


def _replay(
    requests: Iterable[PromptRequest], encode: Encode, settings: Settings
) -> tuple[list[Verdict], list[Prefix]]:
    """Replay the requests. Returns their verdicts, and the prefixes worth caching."""
    from engine.prompts.policies import policies
    from engine.prompts.report import CacheReplay
    from engine.prompts.worth_keeping import worth_keeping

    player = CacheReplay(encode, settings)
    verdicts = [player.run(request) for request in requests]
    return verdicts, worth_keeping(player.trees, verdicts, policies()[settings.policy])


def _replay_rendered(
    requests: Sequence[PromptRequest], name: str | None, encode: Encode, settings: Settings
) -> tuple[tuple[list[Verdict], list[Prefix]] | None, CannotRender | None]:
    """Replay the requests as the tokenizer's chat template renders them, or return None and the template's error.

    Both are None if the tokenizer has no chat template.
    """
    from app.openai.conversations import conversation_of
    from engine.prompts.rendering import CannotRender, rendered, template_of

    template = template_of(name) if name else None
    if template is None:
        return None, None
    try:
        return _replay(rendered(requests, template, conversation_of), encode, settings), None
    except CannotRender as error:
        return None, error


def _print_report(
    file: PromptFile,
    verdicts: list[Verdict],
    found: list[Saving],
    prefixes: list[Prefix],
    arguments: argparse.Namespace,
    how: str,
) -> None:
    from engine.prompts.policies import policies

    policy = arguments.policy
    total, hit = sum(v.num_tokens for v in verdicts), sum(v.hits[policy].num_tokens for v in verdicts)
    again = sum(v.num_again for v in verdicts)
    cost = _step_cost(arguments)
    shapes = ", ".join(f"{count} × {name}" for name, count in file.shapes.items())
    say(f"{arguments.file.name}: {shapes}")
    for fault, count in file.unread.most_common():
        say(f"  not read: {count} × {fault}")
    if file.is_private:
        say("  texts are hashed: counts are in characters, not tokens")
    if how:
        say(f"  {how}")
    sessions = len({verdict.session for verdict in verdicts})
    read = f"{counted(len(verdicts), 'request')} of {counted(sessions, 'session')}"
    say(f"{read}, {total:,} tokens; {percent(hit, total)} hit under {policy}")
    for name in verdicts[0].hits:
        say(f"  {name:<12} {percent(sum(v.hits[name].num_tokens for v in verdicts), total):>7} of the tokens hit")
    reported = [v for v in verdicts if v.reported_cached is not None and v.reported_tokens]
    if reported:
        share = percent(sum(v.reported_cached or 0 for v in reported), sum(v.reported_tokens or 0 for v in reported))
        say(f"  {'reported':<12} {share:>7} by the server, of {len(reported)} requests")
    prefill = f", {_prefill_seconds(verdicts, policy, cost):.2f} s of prefill ({cost.source})" if cost else ""
    say(f"computed again: {again:,} tokens" + prefill + _price(again, arguments))
    breaks = sorted((v for v in verdicts if v.parted), key=lambda v: -v.num_again)
    for verdict in breaks[:MAX_BREAKS]:
        assert verdict.parted is not None
        place = f"request {verdict.request + 1} ({verdict.session}, turn {verdict.turn})"
        say(f"  {verdict.num_again:>8,}  {place}: {_break(verdict)}")
    if len(breaks) > MAX_BREAKS:
        say(f"  and {len(breaks) - MAX_BREAKS} more")
    limits = Counter(replace(v.hits[policy], num_tokens=0, maybe=False) for v in verdicts)
    for found_less, count in limits.most_common():
        if found_less.limit not in (None, "rounded"):
            hit_less = "request hits less" if count == 1 else "requests hit less"
            say(f"  {count} {hit_less}: {words('en').limit(found_less)}")
    for line in (*_left_out(verdicts, "en"), words("en")(f"scope.{policies()[policy].scope}")):
        say(f"  {line}")
    for saving in found:
        say(f"would save {saving.num_tokens:,} tokens: {words('en')(f'proposal.{saving.proposal}')}")
        say(*(f"    {line}" for line in saving.example))
    if prefixes:
        say("prefixes worth caching, by saved tokens:")
    for prefix in prefixes:
        say(f"  {prefix.num_saved:>10,}  {words('en').prefix(prefix)}")


def _costs(verdicts: list[Verdict], arguments: argparse.Namespace, language: str) -> list[str]:
    """Return sentences about the seconds and the price of the recomputed tokens, if the options request them."""
    cost, say_in, found = _step_cost(arguments), words(language), list[str]()
    if cost is not None:
        seconds = _prefill_seconds(verdicts, arguments.policy, cost)
        found.append(say_in("cost.seconds", seconds=f"{seconds:.2f}", source=cost.source))
    if arguments.price is not None:
        price = _extra_price(sum(verdict.num_again for verdict in verdicts), arguments)
        found.append(say_in("cost.price", price=f"{price:,.2f}"))
    return found


def _exported_texts(verdicts: list[Verdict], found: list[Saving], is_private: bool) -> str:
    """Return a sentence about the texts of requests in the exported page."""
    if is_private:
        return "the page has no texts, only lengths, hashes and positions"
    count = sum(verdict.parted is not None for verdict in verdicts)
    texts = f"texts around {count} {'break' if count == 1 else 'breaks'}"
    return f"the page has {texts}{' and examples of proposals' if found else ''} (--private: none)"


def _left_out(verdicts: list[Verdict], language: str) -> list[str]:
    """Return a sentence about the answers that did not fit in the pool, if there are any."""
    answers = sum(verdict.is_answer_left_out for verdict in verdicts)
    return [words(language)("left_out", answers=answers)] if answers else []


def _print_request(verdict: Verdict, policy: str) -> None:
    say(f"request {verdict.request + 1}, line {verdict.line}: {verdict.model or 'no model'}, {verdict.session}")
    say(f"  {verdict.num_tokens:,} tokens, turn {verdict.turn}")
    for name, hit in verdict.hits.items():
        say(f"  {name:<12} {hit.num_tokens:>9,} hit  {words('en').limit(hit)}".rstrip())
    if verdict.reported_cached is not None:
        say(f"  {'reported':<12} {verdict.reported_cached:>9,} of {verdict.reported_tokens or 0:,}")
    if (parted := verdict.parted) is not None:
        from engine.prompts.policies import policies

        block = words("en").block(parted.token, policies()[policy])
        say(f"  diverges from request {(verdict.closest or 0) + 1} at token {parted.token:,}{block}: {_break(verdict)}")
        say(f"    {parted.earlier_path}: {parted.earlier_text!r}", f"    {parted.path}: {parted.text!r}")
    for span in verdict.spans:
        say(f"  {span.num_tokens:>9,}  {words('en')(f'fate.{span.fate}'):<28} {span.path}")


def _break(verdict: Verdict) -> str:
    assert verdict.parted is not None
    return f"{words('en').cause(verdict.parted)}, at {verdict.parted.path}"


def _step_cost(arguments: argparse.Namespace) -> StepCost | None:
    """Return the step times of the model and GPU in the options; None if they name neither."""
    from app.cli.simulate import timed_card
    from engine.accounting.presets import presets

    if not (arguments.model or arguments.gpu):
        return None
    if not (arguments.model and arguments.gpu):
        raise UserError("give --model and --gpu together")
    return timed_card(arguments.model, arguments.gpu, presets()).cost()


def _prefill_seconds(verdicts: list[Verdict], policy: str, cost: StepCost) -> float:
    """Return the seconds of prefill for the recomputed tokens, with a separate step for each prompt."""
    from engine.simulate.cost import shape_of

    def seconds(start: int, end: int) -> float:
        count = end - start
        return cost.seconds(shape_of([(start, count)])) if count > 0 else 0.0

    found = 0.0
    for verdict in verdicts:
        start, end = verdict.hits[policy].num_tokens, verdict.num_tokens
        found += seconds(start, end) - seconds(start + verdict.num_again, end)
    return found


def _price(tokens: int, arguments: argparse.Namespace) -> str:
    if arguments.price is None:
        return ""
    return f", {_extra_price(tokens, arguments):,.2f} more than if they had hit"


def _extra_price(tokens: int, arguments: argparse.Namespace) -> float:
    return float(tokens * (arguments.price - arguments.cached_price) / 1e6)
