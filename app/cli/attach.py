"""`kvtheater attach`: the page over a running vLLM or SGLang, which is only observed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from app.cli.listening import add_server_options, bound_socket, serve_until_stopped, server_settings
from app.cli.options import UserError, add_command, file_errors, user_errors
from app.ground.settings import MIB


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "attach",
        "watch the KV cache of a running vLLM or SGLang",
        "  kvtheater attach --events tcp://127.0.0.1:5557 --replay tcp://127.0.0.1:5558 \\\n"
        "                   --metrics http://127.0.0.1:8000/metrics\n"
        "  kvtheater attach ... --record run.kvtrace   record it; replay, check and compare read the file\n"
        "  kvtheater attach ... --rank 0 --rank 1      data-parallel ranks; each next one has the next port\n\n"
        "vLLM publishes events when it is started with --enable-prefix-caching --kv-events-config\n"
        """  '{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:5557",\n"""
        """    "replay_endpoint": "tcp://*:5558"}'\n"""
        "SGLang publishes them with --kv-events-config\n"
        """  '{"publisher": "zmq", "endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5558"}';\n"""
        "its metrics report neither --block-size (its page size) nor --num-blocks: give both.\n",
    )
    group = parser.add_argument_group("monitored server")
    group.add_argument("--events", required=True, metavar="ADDRESS", help="address of its KV cache events")
    group.add_argument(
        "--replay",
        metavar="ADDRESS",
        help="address that resends missed events; without it, missed events leave gaps, and earlier contents are "
        "unknown",
    )
    group.add_argument("--metrics", metavar="URL", help="its metrics, read once a second")
    group.add_argument("--topic", default="", metavar="TEXT", help="topic of the events (default: all)")
    group.add_argument(
        "--rank", type=int, action="append", metavar="N", help="data-parallel rank, may be repeated (default: 0)"
    )
    group.add_argument("--block-size", type=int, metavar="N", help="tokens per block (default: from the metrics)")
    group.add_argument(
        "--num-blocks", type=int, metavar="N", help="blocks of a rank's pool (default: from the metrics)"
    )
    group.add_argument(
        "--wait",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long to wait for the metrics (default: %(default)s)",
    )
    group.add_argument("--record", type=Path, metavar="FILE", help="write the log to this .kvtrace file")
    group.add_argument(
        "--max-log-mib",
        type=int,
        default=1024,
        metavar="N",
        help="size at which a new log begins, with the known contents, as FILE-2, FILE-3, ... (default: 1024)",
    )
    group.add_argument("--keep", type=int, metavar="N", help="keep the last N recorded logs (default: all)")
    add_server_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    from engine.observe.monitor.attachment import AttachError, Attachment
    from engine.observe.monitor.subscriber import MissingError

    options = _options(arguments)
    settings = server_settings(arguments)
    with bound_socket(arguments) as bound:
        from app.models.model_entry import ModelEntry
        from app.models.registry import Models
        from app.server.application import create_app

        with user_errors(AttachError, MissingError), file_errors("write", arguments.record):
            attachment = Attachment(options, arguments.record)
        app = create_app(Models(ModelEntry(None)), settings, attachment=attachment)
        attachment.start()
        serve_until_stopped(app, bound, settings, f"attached to {options.events}", arguments.open, recording="attached")
    return 0


def _options(arguments: argparse.Namespace) -> Any:
    """Return the options of the attachment. Raises UserError if a number is out of range."""
    from engine.observe.monitor.attachment import Attaching

    ranks = sorted(set(arguments.rank or [0]))
    for name, values in {
        "rank": [rank + 1 for rank in ranks],
        "block-size": [arguments.block_size],
        "num-blocks": [arguments.num_blocks],
        "max-log-mib": [arguments.max_log_mib],
        "keep": [arguments.keep],
    }.items():
        if any(value is not None and value < 1 for value in values):
            raise UserError(f"--{name} must be at least {0 if name == 'rank' else 1}")
    if not 0 <= arguments.wait < float("inf"):
        raise UserError(f"--wait must be at least 0, not {arguments.wait}")
    if arguments.record is not None and arguments.record.exists():
        raise UserError(f"--record {arguments.record} exists already; choose another name")
    return Attaching(
        events=arguments.events,
        replay=arguments.replay,
        metrics=arguments.metrics,
        topic=arguments.topic,
        ranks=tuple(ranks),
        block_size=arguments.block_size,
        num_blocks=arguments.num_blocks,
        wait=arguments.wait,
        max_bytes=arguments.max_log_mib * MIB,
        max_parts=arguments.keep,
    )
