"""Options that several commands share; names follow vLLM's."""

from __future__ import annotations

import argparse
from typing import Any, get_args

from msgspec import structs

from engine.config import ConfigError, EngineConfig, KVCacheDtype, SamplingParams, Strategy
from engine.trace.events import PreemptionMode


class UserError(Exception):
    """The user's mistake: one sentence, exit status 2, no traceback."""


def add_command(commands: Any, name: str, help: str, examples: str) -> argparse.ArgumentParser:
    """A subcommand whose --help ends with examples."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=help[:1].upper() + help[1:] + ".",
        epilog="examples:\n" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """--dtype and --device."""
    group = parser.add_argument_group("model")
    group.add_argument("--dtype", default="auto", help="auto, float32, float16 or bfloat16 (default: auto)")
    group.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """The fields of EngineConfig."""
    defaults = EngineConfig()
    group = parser.add_argument_group("engine")

    def number(flag: str, default: int | None, help: str) -> None:
        shown = "what model and pool can hold" if default is None else default
        group.add_argument(flag, type=int, default=default, metavar="N", help=f"{help} (default: {shown})")

    def switch(flag: str, default: bool, help: str) -> None:
        shown = "on" if default else "off"
        group.add_argument(
            flag, action=argparse.BooleanOptionalAction, default=default, help=f"{help} (default: {shown})"
        )

    group.add_argument(
        "--strategy",
        choices=get_args(Strategy),
        default=defaults.strategy,
        help=f"how the cache is laid out (default: {defaults.strategy})",
    )
    number("--block-size", defaults.block_size, "slots a block")
    number("--num-blocks", defaults.num_blocks, "blocks in the pool")
    number("--max-model-len", defaults.max_model_len, "tokens of a sequence, prompt and output")
    number("--max-num-seqs", defaults.max_num_seqs, "sequences running at once")
    number("--max-num-batched-tokens", defaults.max_num_batched_tokens, "token budget of a step")
    switch("--enable-prefix-caching", defaults.enable_prefix_caching, "share blocks between equal beginnings")
    switch("--enable-chunked-prefill", defaults.enable_chunked_prefill, "split long prompts over steps")
    group.add_argument(
        "--scheduling-policy",
        choices=("fcfs", "priority"),
        default=defaults.scheduling_policy,
        help=f"who is admitted first (default: {defaults.scheduling_policy})",
    )
    group.add_argument(
        "--preemption-mode",
        choices=get_args(PreemptionMode),
        default=defaults.preemption_mode,
        help=f"what happens to the tokens of who must make room (default: {defaults.preemption_mode})",
    )
    group.add_argument(
        "--swap-space",
        type=int,
        default=defaults.swap_space,
        metavar="N",
        help="blocks of CPU memory for preemption by swap (default: as many as the pool has)",
    )
    group.add_argument(
        "--attention-window",
        type=int,
        default=defaults.attention_window,
        metavar="N",
        help="tokens that a query sees, itself included; blocks behind are freed (default: all)",
    )
    group.add_argument(
        "--attention-sinks",
        type=int,
        default=defaults.attention_sinks,
        metavar="N",
        help="first tokens that stay in sight beside the window (default: none)",
    )
    group.add_argument(
        "--sliding-window-pattern",
        type=int,
        default=defaults.sliding_window_pattern,
        metavar="N",
        help="leave every N-th layer without that window, as hybrid models do (default: no layer)",
    )
    group.add_argument(
        "--kv-cache-dtype",
        choices=get_args(KVCacheDtype),
        default=defaults.kv_cache_dtype,
        help=f"what keys and values are stored as (default: {defaults.kv_cache_dtype}, the model's own)",
    )
    group.add_argument(
        "--enforce-eager",
        action="store_true",
        help="never compile the forward pass: equal inputs give equal logs",
    )
    number("--seed", defaults.seed, "of everything random")


def engine_config(arguments: argparse.Namespace) -> EngineConfig:
    """What the options say."""
    given = {k: v for k, v in vars(arguments).items() if k in EngineConfig.__struct_fields__}
    return EngineConfig(**given)


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """The fields of SamplingParams, but for the seed, which is the engine's."""
    defaults = SamplingParams()
    group = parser.add_argument_group("sampling")
    group.add_argument("--max-tokens", type=int, metavar="N", help="tokens to generate (default: as many as fit)")
    group.add_argument(
        "--temperature", type=float, default=defaults.temperature, metavar="T", help="0 is greedy (default: 0)"
    )
    group.add_argument("--top-k", type=int, default=defaults.top_k, metavar="K", help="0 is off (default: 0)")
    group.add_argument("--top-p", type=float, default=defaults.top_p, metavar="P", help="(default: 1)")
    group.add_argument("--min-p", type=float, default=defaults.min_p, metavar="P", help="(default: 0)")
    group.add_argument(
        "--repetition-penalty", type=float, default=defaults.repetition_penalty, metavar="R", help="(default: 1)"
    )
    group.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end at this text; may be repeated")
    group.add_argument("--ignore-eos", action="store_true", help="go on after the end-of-sequence token")
    group.add_argument(
        "--min-tokens", type=int, default=0, metavar="N", help="nothing ends the text before (default: 0)"
    )
    group.add_argument(
        "--logit-bias",
        type=_bias,
        action="append",
        default=[],
        metavar="ID=B",
        help="add B to the logit of token ID; may be repeated",
    )
    group.add_argument("--n", type=int, default=defaults.n, metavar="N", help="texts to return (default: 1)")
    group.add_argument("--best-of", type=int, metavar="N", help="samples to draw, of which the n best are returned")
    group.add_argument(
        "--use-beam-search", action="store_true", help="keep the most probable texts instead of sampling"
    )
    number = defaults.beam_width
    group.add_argument("--beam-width", type=int, default=number, metavar="N", help=f"texts kept (default: {number})")
    group.add_argument(
        "--length-penalty", type=float, default=defaults.length_penalty, metavar="P", help="of a beam (default: 1)"
    )


def _bias(text: str) -> tuple[int, float]:
    try:
        token_id, bias = text.split("=")
        return int(token_id), float(bias)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not ID=B, as in 7=-2.5") from None


def sampling_params(arguments: argparse.Namespace) -> SamplingParams:
    """What the options say.

    Raises:
        UserError: a value out of range.
    """
    names = set(SamplingParams.__struct_fields__) - {"seed"}
    given = {k: v for k, v in vars(arguments).items() if k in names}
    try:
        return structs.replace(SamplingParams(), **{**given, "logit_bias": dict(arguments.logit_bias)}).checked()
    except ConfigError as error:
        raise UserError(str(error)) from error
