"""`kvtheater simulate`: requests of a file on a simulated model and GPUs, with the engine's scheduler."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from app.cli.options import UserError, add_command, add_engine_options, engine_config, file_errors, user_errors
from app.cli.reading import open_trace
from app.cli.simulate_sweep import add_sweep_options, sweep
from app.cli.terminal import say
from app.ground.plain import to_json
from app.scale.size import own_presets
from engine.accounting.presets import Presets, presets
from engine.bench.errors import BenchError
from engine.bench.request_files import FORMATS, read_requests
from engine.bench.workload import Trace, requests_in
from engine.config import EngineConfig
from engine.simulate.calibrate import CalibrationError, calibrate, timed_steps
from engine.simulate.cost import Jittered, StepCost, windows_of
from engine.simulate.layers import Card, card_of
from engine.simulate.outcome import LinkSpeed, Outcome
from engine.simulate.placed import facts_of
from engine.simulate.simulation import Simulation
from engine.trace.messages.words import bytes_text, seconds_text
from engine.trace.records import ModelFacts

MAX_REQUESTS = 1_000_000


class Subject(NamedTuple):
    """Subject of a simulation: a model, its step times, and its engine's settings."""

    facts: ModelFacts
    cost: StepCost
    config: EngineConfig


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "simulate",
        "simulate serving the requests of a file on a model and GPUs that this machine does not have",
        "  kvtheater simulate workload.jsonl --model llama-2-7b --gpu a100-80gb --record run.kvtrace\n"
        "  kvtheater simulate workload.jsonl --model llama-2-70b --gpu h100-80gb --tp 4 --prefill 1 --decode 1\n"
        "  kvtheater simulate workload.jsonl --scale 32 --like run.kvtrace\n"
        "  kvtheater simulate workload.jsonl --model llama-2-7b --gpu a100-80gb --sweep stretch=0.5,1,2 \\\n"
        "      --sweep enable-prefix-caching=on,off\n",
    )
    parser.add_argument(
        "requests", type=Path, metavar="FILE",
        help="requests: JSON lines of Mooncake or Bailian, CSV of Azure's LLM traces or BurstGPT, JSON of ShareGPT",
    )  # fmt: skip
    group = parser.add_argument_group("simulated model")
    timed = presets()
    models, gpus = (sorted(one.id for one in kind) for kind in (timed.timed_models, timed.timed_gpus))
    group.add_argument("--model", metavar="ID", help=f"model, with --gpu: {', '.join(models)}, or one of your own")
    group.add_argument("--gpu", metavar="ID", help=f"GPU with layer times: {', '.join(gpus)}, or one of your own")
    group.add_argument("--presets", type=Path, metavar="FILE", help="TOML file of models, GPUs and [[layer]] times")
    group.add_argument("--data-dir", type=Path, metavar="DIR", help="read presets/*.toml of this folder too")
    group.add_argument("--tp", type=int, default=1, metavar="N", help="GPUs that split each layer (default: 1)")
    group.add_argument(
        "--like", type=Path, metavar="TRACE",
        help="use the model, settings and step times of a recorded run instead of --model and --gpu",
    )  # fmt: skip
    group.add_argument(
        "--link-gb-per-second", type=float, metavar="X", help="speed of transfers between instances (default: instant)"
    )
    load = parser.add_argument_group("load")
    load.add_argument(
        "--trace-format", choices=list(FORMATS), help="format of FILE (default: recognized by its first line)"
    )
    load.add_argument(
        "--tokenizer", metavar="MODEL", help="tokenizer of ShareGPT's texts (default: the bundled one)"
    )  # fmt: skip
    load.add_argument("--scale", type=int, default=1, metavar="N", help="divide all lengths by N (default: 1)")
    load.add_argument(
        "--stretch", type=float, default=1.0, metavar="X", help="multiply arrival times by X (default: 1)"
    )
    load.add_argument(
        "--num-requests", type=int, default=MAX_REQUESTS, metavar="N", help="use the first N that fit (default: all)"
    )  # fmt: skip
    parser.add_argument("--record", type=Path, metavar="OUT", help="write the run as a trace for kvtheater replay")
    parser.add_argument("--force", action="store_true", help="overwrite the file given to --record")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_sweep_options(parser)
    add_engine_options(parser)
    parser.set_defaults(run=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Simulate, and print the figures.

    Raises:
        UserError: a file cannot be read or written, or the settings are impossible.
    """
    if arguments.sweep:
        return sweep(arguments, arguments.parser, simulate)
    record: Path | None = arguments.record
    if record and record.exists() and not arguments.force:
        raise UserError(f"{record} exists already; choose another name, or --force to overwrite it")
    found = simulate(arguments)
    if arguments.json:
        sys.stdout.write(to_json(found).decode() + "\n")
    else:
        _print(found)
        if record:
            say(f"show the run with kvtheater replay {record}")
    return 0


def simulate(arguments: argparse.Namespace) -> dict[str, Any]:
    """Simulate, and return the figures. Writes the log if --record is set.

    Raises:
        UserError: as `run`.
    """
    record: Path | None = arguments.record
    with user_errors(BenchError, CalibrationError, ValueError), file_errors("write", record):
        facts, cost, config = subject(arguments)
        workload = Trace(
            name=arguments.requests.stem,
            num_requests=_within("--num-requests", arguments.num_requests, 1, MAX_REQUESTS),
            scale=arguments.scale,
            most_tokens=config.max_model_len or facts.max_position,
            stretch=_within("--stretch", arguments.stretch, 0.0, 1e6),
        )
        file = read_requests(arguments.requests, arguments.trace_format, _encode(arguments.tokenizer))
        requests = requests_in(file, workload, facts.vocab_size, config_seed(arguments))
        link = None
        if arguments.link_gb_per_second is not None:
            link = LinkSpeed(_within("--link-gb-per-second", arguments.link_gb_per_second, 1e-6, 1e6) * 1e9)
        simulation = Simulation(
            facts,
            config,
            cost,
            link=link,
            seed=config_seed(arguments),
            keep_log=record is not None,
            log_path=record,
        )
    with closing(simulation), user_errors(ValueError), file_errors("write", record or "the run"):
        outcome = simulation.run(requests)
    return {"reading": file.reading, **figures(outcome, cost.source)}


def _encode(name: str | None) -> Callable[[str], Sequence[int]]:
    """Return an encoder that opens its tokenizer for the first text, since most files have no texts."""

    @cache
    def opened() -> Callable[[str], Sequence[int]]:
        from engine.prompts.tokens import open_encoder

        return open_encoder(name)

    return lambda text: opened()(text)


def subject(arguments: argparse.Namespace) -> Subject:
    """Return the subject that the options select.

    Raises:
        UserError: the options select neither a recorded run nor a model with a GPU, or both.
        ValueError: the step times are unknown.
    """
    config = engine_config(arguments)
    if arguments.like:
        if arguments.model or arguments.gpu:
            raise UserError("--like takes the model and the step times from the run; omit --model and --gpu")
        return _like(arguments.like, config, config_seed(arguments))
    if not (arguments.model and arguments.gpu):
        raise UserError("give --model and --gpu, or --like with a recorded run")
    known = presets(own_presets(arguments.data_dir, arguments.presets))
    card = timed_card(arguments.model, arguments.gpu, known)
    preset, dtype = card.model, config.kv_cache_dtype
    cost = card.cost(arguments.tp, dtype)
    if config.num_blocks is None:
        tokens = card.room_tokens(
            arguments.tp, max_num_batched_tokens=config.max_num_batched_tokens, kv_cache_dtype=dtype
        )
        if tokens < config.block_size:
            raise UserError(f"{preset.name} does not fit on {arguments.tp} × {card.gpu.name}; give more GPUs with --tp")
        config = replace(config, num_blocks=tokens // config.block_size)
    return Subject(facts_of(preset), cost, config)


def timed_card(model: str, gpu: str, known: Presets) -> Card:
    """Return the times of a model's layers on a GPU.

    Raises:
        UserError: the model or the GPU is unknown, or its layers were not measured.
    """
    for flag, id, choices in (("--model", model, known.timed_models), ("--gpu", gpu, known.timed_gpus)):
        ids = [one.id for one in choices]
        if id not in ids:
            raise UserError(f"{flag} {id!r} is unknown, or its layers were not measured; use one of {', '.join(ids)}")
    return card_of(model, gpu, known)


def config_seed(arguments: argparse.Namespace) -> int:
    """Return the seed of the engine, of token ids and of step times."""
    return int(arguments.seed or 0)


def _like(path: Path, config: EngineConfig, seed: int) -> Subject:
    """Return a recorded run's model, step times with their variation, and settings, overridden by those of `config`."""
    with open_trace(path) as log:
        if log.header.instances:
            raise UserError(f"{path} has several instances; --like needs a run of one")
        recorded = msgspec.convert(log.header.engine, EngineConfig)
        facts = log.header.model
        windows = windows_of(facts, recorded.policy)
        found = calibrate(timed_steps((log.record(i) for i in range(len(log))), windows), f"steps of {path.name}")
    default = EngineConfig()
    changed = {
        name: value for name in config.__struct_fields__ if (value := getattr(config, name)) != getattr(default, name)
    }
    return Subject(facts, Jittered(found.cost, found.ratios, seed), replace(recorded, **changed))


def figures(outcome: Outcome, source: str) -> dict[str, Any]:
    """Return the figures to print. Times are in seconds; percentiles are interpolated linearly."""
    served = [one for one in outcome.requests if one.tokens]
    return {
        "source": source,
        "requests": len(outcome.requests),
        "rejected": len(outcome.requests) - len(served),
        "seconds": outcome.seconds,
        "steps": outcome.num_steps,
        "preemptions": outcome.num_preemptions,
        "prompt_tokens": outcome.num_queried_tokens,
        "hit_tokens": outcome.num_hit_tokens,
        "output_tokens": sum(len(one.tokens) for one in served),
        "moved_bytes": outcome.moved_bytes,
        "busy": [busy / outcome.seconds for busy in outcome.busy_seconds],
        "ttft": _spread([one.ttft for one in served if one.ttft is not None]),
        "tpot": _spread([one.tpot for one in served if one.tpot is not None]),
    }


def _spread(values: list[float]) -> dict[str, float] | None:
    if len(values) < 2:
        return None
    cuts = quantiles(values, n=100, method="inclusive")
    return {"p50": cuts[49], "p90": cuts[89], "p99": cuts[98]}


def _print(found: dict[str, Any]) -> None:
    say(f"requests: {found['reading']}", f"simulated: {found['source']}")
    refused = f", {found['rejected']} refused" if found["rejected"] else ""
    ran = f"{found['requests']} requests in {found['seconds']:.1f} s, {found['steps']} steps"
    say(f"{ran}{refused}, {found['preemptions']} preemptions")
    share = f" ({100 * found['hit_tokens'] / found['prompt_tokens']:.1f} %)" if found["prompt_tokens"] else ""
    hit = f"{found['hit_tokens']:,}{share}"
    say(f"prompt tokens {found['prompt_tokens']:,}, hit {hit}; output {found['output_tokens']:,}")
    for name in ("ttft", "tpot"):
        if found[name]:
            cuts = ", ".join(f"{cut} {seconds_text(value, ' ')}" for cut, value in found[name].items())
            say(f"{name.upper()}: {cuts}")
    busy = ", ".join(f"{100 * share:.0f} %" for share in found["busy"])
    say(f"busy: {busy}" + (f"; moved {bytes_text(found['moved_bytes'], ' ')}" if found["moved_bytes"] else ""))


def _within(name: str, value: Any, low: float, high: float) -> Any:
    if not low <= value <= high:
        raise UserError(f"{name} must be from {low:g} to {high:g}, not {value:g}")
    return value
