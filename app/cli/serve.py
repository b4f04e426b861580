"""`kvtheater serve`: the server."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from app.cli.api_options import add_api_options, api_settings
from app.cli.instances import add_ray_option, served_config, worker_processes
from app.cli.kv_offload import add_kv_offload_options, kv_offload
from app.cli.listening import add_server_options, bound_socket, check_queue, serve_until_stopped, server_settings
from app.cli.loading_thread import LoadingThread
from app.cli.model_config import add_model_config_option, model_configs
from app.cli.observing import access_log, add_observing_options, request_spans
from app.cli.options import UserError, add_command, add_engine_options, add_model_options, user_errors
from app.cli.size import check_presets
from app.ground.settings import MIB, ServerSettings
from app.models.model_entry import ModelEntry
from app.models.registry import Models, served_name
from app.prompts.tokenizers import tokenizers_by_name
from engine.model.gguf_file import is_gguf
from engine.model.shipped import BUNDLED, SHIPPED


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "serve",
        "serve models and the page that shows their KV caches",
        "  kvtheater serve\n"
        "  kvtheater serve Qwen/Qwen3-0.6B --dtype bfloat16 --num-blocks 256\n"
        "  kvtheater serve ./model.gguf          a GGUF file; owner/name:Q8_0 is one of the hub\n"
        "  kvtheater serve bundled ./my-model    two models, chosen for each run on the page\n"
        "  kvtheater serve bundled ./my-model --model-config FILE  with settings per model\n"
        "  kvtheater serve --api                 with OpenAI's API at /v1\n"
        "  kvtheater serve --prefill 1 --decode 1  prompts on one instance, decoding on another\n"
        "  kvtheater serve --class               a class: phones join by a QR code on the page\n"
        "  kvtheater serve --class --message-queue redis://localhost\n"
        "                                        a class on several processes (kvtheater worker)\n"
        "  kvtheater serve --traffic traffic.jsonl  analyze an agent's prompts live at /prompts/traffic\n"
        "  kvtheater serve --host 0.0.0.0        for other machines, which need the printed token\n",
    )
    parser.add_argument(
        "model",
        nargs="*",
        default=[BUNDLED],
        metavar="MODEL",
        help="folders, GGUF files or hub names; the first is the default model of runs, the others are loaded on first "
        "use (default: the bundled model)",
    )
    server = add_server_options(parser, default_host=None)
    add_observing_options(server)
    server.add_argument(
        "--class",
        dest="is_class",
        action="store_true",
        help="serve a class: listen on every address unless --host names one, and open the page with a new class",
    )
    server.add_argument(
        "--class-store",
        metavar="URL",
        help="SQLAlchemy address of the database for classes that a teacher keeps (default: a file in the data folder)",
    )
    add_api_options(parser)
    add_kv_offload_options(parser)
    add_ray_option(server)
    server.add_argument(
        "--message-queue",
        metavar="URL",
        help="URL of the Redis that connects web workers (kvtheater worker): redis://HOST:PORT/DATABASE; anyone who "
        "can reach it can read and send messages",
    )
    server.add_argument(
        "--max-theaters",
        type=int,
        default=ServerSettings().max_theaters,
        metavar="N",
        help="maximum number of live runs (default: %(default)s)",
    )
    server.add_argument(
        "--max-model-mib",
        type=int,
        metavar="N",
        help="maximum size of all weights together; models without a run, except the first, are unloaded to stay below "
        "it (default: half of the device's memory)",
    )
    parser.add_argument("--lessons", type=Path, metavar="DIR", help="folder of your own lessons (kvtheater lesson new)")
    parser.add_argument(
        "--presets",
        type=Path,
        metavar="FILE",
        help="TOML file of your own models, GPUs, links and layer times for /scale (also read: DATA_DIR/presets)",
    )
    parser.add_argument(
        "--tokenizer",
        action="append",
        default=[],
        metavar="NAME=MODEL",
        help="another tokenizer for the page /prompts: its name there, and a folder, a GGUF file or a hub name; may be "
        "repeated (the tokenizers of the served models and of the bundled one are always offered)",
    )
    parser.add_argument(
        "--traffic",
        type=Path,
        metavar="FILE",
        help="file of kvtheater proxy that the page /prompts/traffic follows while it grows",
    )
    add_model_options(parser)
    add_model_config_option(parser)
    add_engine_options(parser)
    parser.set_defaults(run=run, instances=None)  # see `served_config`


# Rounds for which a computing thread spins before it yields its core (GOMP_SPINCOUNT). libgomp's default of 300000
# takes some milliseconds. If other programs use the machine, such as a browser that draws the page, threads then spin
# while the thread that they wait for has no core: the throughput of 64 streams on two busy cores fell to a tenth.
# libgomp itself uses 1000 rounds (about ten microseconds) if there are more threads than cores. On an otherwise idle
# machine, 1000 rounds cost 64 streams on two virtual cores 30 % of their throughput; set GOMP_SPINCOUNT=300000 there.
SPIN_COUNT = "1000"
# Seconds after which a Python thread must yield the interpreter to a waiting thread. The hub accepts, reads and queues
# a request in several turns, each of which may wait that long for an engine that prepares a step. With Python's default
# of 5 ms, reading a request took 25 % longer.
SWITCH_INTERVAL = 0.0005


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM. The port answers before the model is loaded."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)  # read when torch is imported
    sys.setswitchinterval(SWITCH_INTERVAL)
    if arguments.max_theaters < 1:
        raise UserError(f"--max-theaters must be at least 1, not {arguments.max_theaters}")
    if arguments.lessons is not None and not arguments.lessons.is_dir():
        raise UserError(f"--lessons {arguments.lessons} is not a folder")
    if arguments.presets is not None:
        check_presets(arguments.presets)
    if arguments.max_model_mib is not None and arguments.max_model_mib < 0:
        raise UserError(f"--max-model-mib must be at least 0, not {arguments.max_model_mib}")
    if arguments.class_store is not None:
        from app.classroom.database import database_url

        with user_errors(ValueError, of="--class-store"):
            database_url(arguments.class_store)
    if arguments.message_queue is not None:
        check_queue(arguments.message_queue, is_server=True)
    arguments.host = arguments.host or ("0.0.0.0" if arguments.is_class else "127.0.0.1")
    first, *others = _names(arguments.model)
    with user_errors(ValueError, of="--tokenizer"):
        tokenizers = tokenizers_by_name(arguments.model, [first, *others], arguments.tokenizer)
    config = served_config(arguments)
    settings = server_settings(
        arguments,
        tokenizers=tokenizers,
        traffic=arguments.traffic,
        config=config,
        configs=model_configs(arguments, [first, *others], config),
        max_theaters=arguments.max_theaters,
        max_model_bytes=None if arguments.max_model_mib is None else arguments.max_model_mib * MIB,
        lessons=arguments.lessons,
        presets=arguments.presets,
        class_store=arguments.class_store,
        api=api_settings(arguments),
        message_queue=arguments.message_queue,
    )
    with (
        bound_socket(arguments) as bound,
        access_log(arguments) as log,
        request_spans(arguments) as spans,
        kv_offload(arguments) as tiers,
        worker_processes(config, arguments.ray_address) as workers_of,
    ):
        served = ModelEntry.loading(first)
        loading = LoadingThread(arguments, settings, served, tiers, workers_of)
        loading.compile_early()
        from app.server.application import create_app

        at_hand = [name for name in SHIPPED if name not in (first, *others)]
        named = [ModelEntry.unloaded(name, "named") for name in others]
        more = [*named, *(ModelEntry.unloaded(name, "at_hand") for name in at_hand)]
        app = create_app(Models(served, more, loading, loading.most_bytes), settings, access_log=log, spans=spans)
        what = f"{first}, being opened"
        view = {"teach": "1"} if arguments.is_class else {}
        if not serve_until_stopped(
            app, bound, settings, what, arguments.open, loading.start, arguments.is_class, **view
        ):
            assert loading.error is not None  # otherwise serving ends only on request
            raise loading.error
    if loading.is_at_work:  # do not wait seconds for it; the next start compiles unfinished output again
        sys.stdout.flush()
        os._exit(0)
    return 0


def _names(models: list[str]) -> list[str]:
    """Return the names of the models, in their order.

    Raises:
        UserError: two models have the same name, or a model's folder does not exist.
    """
    names = [served_name(one) for one in models]
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"two models have the name {duplicate}, but a run selects its model by name")
    for one in models[1:]:  # errors of the first are reported when it is opened, immediately
        is_here = (Path(one).expanduser() / "config.json").is_file() or is_gguf(one)
        if one.startswith((".", "/", "~")) and not is_here:
            raise UserError(f"there is no model in {one}: it has no config.json")
    return names
