"""Command-line options of the API."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from app.cli.options import UserError, user_errors
from app.ground.settings import ANONYMOUS, ApiSettings, Policy
from app.openai.keys import digest, read_keys

KEY_VARIABLE = "KVTHEATER_API_KEY"


def add_api_options(parser: argparse.ArgumentParser) -> None:
    """Add `--api` and its options."""
    group = parser.add_argument_group("api")
    group.add_argument(
        "--api",
        action="store_true",
        help="serve OpenAI's API at /v1, in a separate session that the page shows as API",
    )
    group.add_argument(
        "--api-private",
        action="store_true",
        help="keep texts and token ids of requests out of page, logs and recordings; counts, blocks and times remain",
    )
    group.add_argument(
        "--allowed-origins",
        type=_origins,
        default=(),
        metavar="ORIGIN,…",
        help="other sites whose pages may call the API, such as https://chat.example.org (* for any; default: none)",
    )
    group.add_argument(
        "--api-keys",
        type=Path,
        metavar="FILE",
        help=f"TOML file with a table [name] per client: sha256 (digest of its key), max_waiting, max_tokens and "
        f"deadline; for a single key set {KEY_VARIABLE} instead (default: no key is required)",
    )
    default = Policy(name=ANONYMOUS)
    group.add_argument(
        "--api-max-waiting",
        type=int,
        default=default.max_waiting,
        metavar="N",
        help="maximum number of waiting requests per client; further ones are refused with 429 (default: %(default)s)",
    )
    group.add_argument(
        "--api-max-tokens", type=int, metavar="N", help="maximum tokens of an answer (default: as many as fit)"
    )
    group.add_argument("--api-deadline", type=float, metavar="SECONDS", help="time limit of a request (default: none)")


def _origins(text: str) -> tuple[str, ...]:
    origins = tuple(one.strip().lower().rstrip("/") for one in text.split(",") if one.strip())
    for one in origins:
        if one != "*" and not re.fullmatch(r"https?://[^/?#\s]+", one):
            raise argparse.ArgumentTypeError(f"{one!r} is not an origin such as https://chat.example.org, nor *")
    return origins


def api_settings(arguments: argparse.Namespace) -> ApiSettings | None:
    """Return the API settings; None without `--api`.

    Raises:
        UserError: a value is out of range, or the file of keys cannot be read.
    """
    if not arguments.api:
        for name in ("api_private", "allowed_origins", "api_keys", "api_max_tokens", "api_deadline"):
            if vars(arguments)[name]:
                raise UserError(f"--{name.replace('_', '-')} requires --api")
        return None
    for name in ("api_max_waiting", "api_max_tokens", "api_deadline"):
        value = vars(arguments)[name]
        if value is not None and not value > 0:
            raise UserError(f"--{name.replace('_', '-')} must be over 0, not {value:g}")
    default = Policy(
        name=ANONYMOUS,
        max_waiting=arguments.api_max_waiting,
        max_tokens=arguments.api_max_tokens,
        deadline=arguments.api_deadline,
    )
    keys: dict[str, Policy] = {}
    if arguments.api_keys is not None:
        with user_errors(ValueError, of="--api-keys"):
            keys = read_keys(arguments.api_keys, default)
        if not keys:
            raise UserError(f"--api-keys: {arguments.api_keys} has no key")
    if key := os.environ.get(KEY_VARIABLE):
        keys[digest(key)] = Policy(
            name="key", max_waiting=default.max_waiting, max_tokens=default.max_tokens, deadline=default.deadline
        )
    return ApiSettings(
        keys=keys, default=default, is_private=arguments.api_private, allowed_origins=arguments.allowed_origins
    )
