"""Stress test of random combinations of all features that move blocks.

They are transfers between instances, tiers, chunks, forks, beams, preemption, failed steps, aborts and killed
instances.

    python -m tests.load.seams --seconds 600

Each round has a seed, and `--seed` repeats it. After a round every log must be valid and no block may be held. Outputs
of greedy requests and beams must equal those of a single engine, or be a prefix if the request was aborted.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace

from engine.cluster.router import RejectedError
from engine.config import EngineConfig, SamplingParams
from engine.connector.offloading import OffloadingConnector
from engine.connector.tiers.settings import DiskSetting
from engine.connector.tiers.tiers import Tiers
from engine.engine import Engine
from engine.model.loaded import LoadedModel
from engine.requests.request_spec import RequestError, RequestSpec
from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.operations import Op, Preempt, TransferFailed
from engine.trace.state import Sequence as Replayed
from tests.unit.cluster.clusters import check_state
from tests.unit.cluster.staged import StagedCluster
from tests.unit.engine.runs import tiny_llama

SHAPES = [(1, 1, 0), (1, 2, 0), (2, 1, 0), (0, 0, 2), (1, 0, 1), (1, 1, 1)]  # prefill, decode, mixed
WINDOWS: list[dict[str, Any]] = [
    {}, {}, {}, {"attention_window": 8, "attention_sinks": 4}, {"attention_window": 8, "sliding_window_pattern": 2},
]  # fmt: skip
SHARED = [5, 9, 11, 3, 7, 8, 2, 4, 6, 10, 12, 13, 21, 22, 23, 24]
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "scored": {"prompt_logprobs": 1},  # the prompt is computed on the decode instance
    "samples": {"n": 3, "temperature": 1.0, "seed": 7},
    "beams": {"use_beam_search": True, "beam_width": 2, "n": 2},
}
FAULTS = ("move_blocks", "execute", "execute", "sample", "start_load_kv", "write")
MAX_ACTIONS = 20_000
LEASES = (0.05, 0.6, 0.6)  # seconds


class Violation(AssertionError):
    """Violated invariant."""


def config_of(rng: random.Random) -> EngineConfig:
    config = EngineConfig(
        block_size=4,
        num_blocks=rng.choice([10, 10, 11, 14, 20]),
        max_model_len=36,
        max_num_batched_tokens=rng.choice([3, 5, 8, 64]),
        max_num_seqs=rng.choice([3, 4, 8]),
        enable_prefix_caching=rng.random() < 0.8,
        preemption_mode=rng.choice(["recompute", "swap"]),
        scheduling_policy=rng.choice(["fcfs", "fcfs", "priority"]),
    )
    return replace(config, **rng.choice(WINDOWS))


def spec_of(rng: random.Random, number: int) -> RequestSpec:
    shared = [60 + rng.randrange(3), *SHARED]
    prompt = shared[: rng.choice([0, 5, 9, 16, 17])] + [30 + rng.randrange(3) for _ in range(rng.randint(1, 12))]
    kind = rng.choice(["greedy", "greedy", "scored", "samples", "beams"])
    sampling = SamplingParams(max_tokens=rng.randint(1, 8), ignore_eos=True, **KINDS[kind])
    return RequestSpec(prompt, sampling, f"r{number}", rng.randrange(3))


@cache
def expected(prompt: tuple[int, ...], beams: bool, max_tokens: int, window: tuple[tuple[str, int], ...]) -> list[Any]:
    """Return the tokens of each output of a single engine."""
    sampling = SamplingParams(max_tokens=max_tokens, ignore_eos=True, **KINDS["beams" if beams else "greedy"])
    config = replace(EngineConfig(block_size=4, num_blocks=99, enable_prefix_caching=False), **dict(window))
    with Engine(tiny_llama(), config, keep_log=False) as engine:
        request = engine.add_request(list(prompt), sampling)
        while engine.has_unfinished():
            engine.step()
        return [output.output_token_ids for output in request.outputs]


def fail_once(engine: Engine, where: str, is_beside: bool = False) -> None:
    """Make the engine fail at its next call of `where`.

    `is_beside`: fail in a step during which a sequence receives blocks that follow blocks of the step.
    """
    owners: dict[str, Any] = {
        "move_blocks": engine._runner,
        "execute": engine._runner,
        "sample": engine._outputs.sampler,
        "start_load_kv": engine._connector,
        "write": engine.kv_caches[0],
    }
    owner = owners[where]
    if where in vars(owner):
        return  # a failure is pending already
    does, cache, receiving = getattr(owner, where), engine._cache, engine._scheduler.transfers.receiving

    def fail(*arguments: Any) -> Any:
        shared = {i for seq_id in receiving for table in cache.block_tables(seq_id) for i in table}
        if is_beside and not shared & cache.promised.keys():
            return does(*arguments)
        delattr(owner, where)
        raise MemoryError

    setattr(owner, where, fail)


class Round:
    """Requests and random events. `act` performs an event, `go_on` advances some requests."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self.rng, self.folder = rng, folder
        self.config = config_of(rng)
        self.left = rng.randint(3, 12)  # requests not yet submitted
        self.specs: dict[str, RequestSpec] = {}
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """Run the round. Raises Violation."""
        actions = 0
        while self.left or self.is_busy:
            actions += 1
            if actions > MAX_ACTIONS:
                raise Violation(f"no end after {actions} actions")
            self.act()
        self.finish()
        for path in sorted(self.folder.glob("*.kvtrace")):
            for finding in check(path):
                raise Violation(f"{path.name}: {finding}")
            self._count(path)

    def act(self) -> None:
        chances: list[tuple[float, Callable[[], None]]] = [
            (12.0, self.go_on),
            (5.0 if self.left else 0.0, self._submit),
            *((0.3, what) for what in (self.abort, self.fail, self.fail, self.kill) if self.left),
        ]
        weights, actions = zip(*chances, strict=True)
        self.rng.choices(actions, weights)[0]()

    def _submit(self) -> None:
        spec = spec_of(self.rng, len(self.specs))
        self.left -= 1
        try:
            self.submit(spec)
        except (RequestError, RejectedError):
            self.counts["refused"] += 1
            return
        self.specs[spec.request_id or ""] = spec
        self.counts["requests"] += 1

    def compare(self, sequences: Sequence[Replayed]) -> None:
        """Compare the results of every request with those of a single engine."""
        window = tuple((name, getattr(self.config, name)) for name in WINDOWS[-1] | WINDOWS[-2])
        set_by_config = tuple((name, value) for name, value in window if value)
        for request_id, spec in self.specs.items():
            own = [s for s in sequences if s.request_id == request_id]
            assert isinstance(spec.prompt, list)
            sampling, prompt = spec.sampling, tuple(spec.prompt)
            if sampling.temperature and not sampling.use_beam_search:
                continue
            wanted = expected(prompt, sampling.use_beam_search, sampling.max_tokens, set_by_config)
            ended = bool(own) and all(s.finish_reason in ("length", "stop", "dropped") for s in own)
            ranked = sorted((s for s in own if s.finish_reason != "dropped"), key=lambda s: s.rank or 0)
            found = [s.token_ids[s.num_prompt_tokens :] for s in ranked][: sampling.n]
            if ended and found != wanted:
                raise Violation(f"{request_id} got {found}, a plain engine says {wanted}")
            if not ended and not sampling.use_beam_search and found and found[0] != wanted[0][: len(found[0])]:
                raise Violation(f"{request_id} began with {found[0]}, a plain engine says {wanted[0]}")
            self.counts["compared in full" if ended else "given up"] += 1

    def _count(self, path: Path) -> None:
        with TraceReader(path) as log:
            for index in range(len(log)):
                record = log.record(index)
                self.counts["records"] += 1
                self.counts["chunks"] += sum(entry.phase == "prefill" and not entry.samples for entry in record.batch)
                self.counts.update(map(_name, record.ops))

    # overridden by kinds of rounds

    is_busy = False

    def submit(self, spec: RequestSpec) -> None: ...
    def go_on(self) -> None: ...
    def abort(self) -> None: ...
    def fail(self) -> None: ...
    def kill(self) -> None: ...
    def finish(self) -> None: ...


def _name(op: Op) -> str:
    name: str = op.__struct_config__.tag  # type: ignore[assignment]
    if isinstance(op, Preempt):
        return f"{name} by {op.mode}"
    return f"{name}: {op.reason}" if isinstance(op, TransferFailed) else name


class Instances(Round):
    """Two or three instances with delayed messages."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        super().__init__(rng, folder)
        prefill, decode, mixed = rng.choice(SHAPES)
        config = replace(
            self.config,
            prefill=prefill,
            decode=decode,
            mixed=mixed,
            routing_policy=rng.choice(["round_robin", "longest_prefix"]),
            kv_load_failure_policy=rng.choice(["recompute", "recompute", "fail"]),
        )
        self.stage = StagedCluster(tiny_llama(), config, log_path=folder / "run.kvtrace", lease=rng.choice(LEASES))
        self.kills = rng.choice([0, 0, 1, 2])
        self.slow = rng.randrange(len(self.stage))  # instance that takes few turns

    @property
    def is_busy(self) -> bool:  # type: ignore[override]
        is_busy = any(self.stage[index].num_undelivered for index in range(len(self.stage)))
        return is_busy or self.stage.cluster.num_unfinished > 0

    def submit(self, spec: RequestSpec) -> None:
        self.stage.cluster.send([spec])

    def go_on(self) -> None:
        possible: list[Callable[[], object]] = []
        for index in range(len(self.stage)):
            one = self.stage[index]
            if index == self.slow and self.rng.random() < 0.8:
                continue
            possible += [one.work] * one.is_busy + [one.pull] * (one.num_pulls > 0)
            possible += [lambda index=index: self.stage.deliver(index)] * (one.num_undelivered > 0)  # type: ignore[misc]
        if possible:
            self.rng.choice(possible)()
        self.stage.cluster.step(0.0)
        self.stage.wait(self.rng.random() / 200)

    def abort(self) -> None:
        if requests := list(self.stage.cluster._requests):
            self.stage.cluster.abort(self.rng.choice(requests))
            self.counts["aborts"] += 1

    def fail(self) -> None:
        all_of_them = [self.stage[index] for index in range(len(self.stage))]
        one = self.rng.choice([one for one in all_of_them if one.is_busy] or all_of_them)
        where = self.rng.choice(FAULTS)
        fail_once(one.engine, where, where == "execute" and self.rng.random() < 0.7)

    def kill(self) -> None:
        if self.kills:
            self.kills -= 1
            index = self.rng.randrange(len(self.stage))
            if self.rng.random() < 0.5:
                self.stage.lose(index)
            else:
                self.stage.after_the_next_read(lambda: self.stage.lose(index))

    def finish(self) -> None:
        cluster = self.stage.cluster
        if len(cluster.log):
            check_state(cluster)
        state = cluster.log.state_now()
        if any(block.ref_count for block in state.blocks):
            raise Violation("blocks are held, and every request is over")
        self.counts["failed steps"] += sum(self.stage[index].failures for index in range(len(self.stage)))
        cluster.close()
        self.compare(list(state.sequences.values()))


class Outside(Round):
    """Two engines over the same tiers, in sequence or concurrently."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        super().__init__(rng, folder)
        self.config = replace(self.config, enable_prefix_caching=True)
        cpu, disk = rng.choice([(1 << 16, None), (1 << 13, None), (1 << 13, 1 << 16), (None, 1 << 16)])
        self.tiers = Tiers(cpu, None if disk is None else DiskSetting(folder / "blocks", disk))
        self.engines = [self._begin(f"{index}.kvtrace") for index in range(2)]

    def _begin(self, name: str) -> Engine:
        model: LoadedModel = tiny_llama()
        connector = OffloadingConnector(self.tiers, model, self.config)
        return Engine(model, self.config, connector=connector, log_path=self.folder / name)

    @property
    def is_busy(self) -> bool:  # type: ignore[override]
        return any(engine.has_unfinished() for engine in self.engines)

    def submit(self, spec: RequestSpec) -> None:
        self.rng.choice(self.engines).add_requests([spec])

    def go_on(self) -> None:
        busy = [engine for engine in self.engines if engine.has_unfinished()]
        if not busy:
            return
        try:
            self.rng.choice(busy).step()
        except MemoryError:
            self.counts["failed steps"] += 1

    def abort(self) -> None:
        engine = self.rng.choice(self.engines)
        if names := [name for name in self.specs if engine.request(name) is not None]:
            engine.abort(self.rng.choice(names))
            self.counts["aborts"] += 1

    def fail(self) -> None:
        fail_once(self.rng.choice(self.engines), self.rng.choice(FAULTS))

    def finish(self) -> None:
        sequences = list[Replayed]()
        for engine in self.engines:
            engine.check_integrity()
            assert engine.log is not None
            if engine.snapshot().memory.blocks_held:
                raise Violation("blocks are held, and every request is over")
            sequences += engine.log.state_now().sequences.values()
            engine.close()
        self.tiers.close()
        self.compare(sequences)


def run_round(seed: int) -> Counter[str]:
    """Run one round and return the number of events by kind.

    Raises:
        Violation: an invariant is violated; a bug may also raise other exceptions.
    """
    rng = random.Random(seed)
    kind = rng.choice([Instances, Instances, Outside])
    with tempfile.TemporaryDirectory(prefix="kvt-seams-") as name:
        one = kind(rng, Path(name))
        one.run()
        return one.counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="of the first round")
    parser.add_argument("--rounds", type=int, default=None, help="at most")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # steps are small
    end, rounds, violations = time.monotonic() + arguments.seconds, 0, 0
    counts: Counter[str] = Counter()
    while time.monotonic() < end and rounds != arguments.rounds:
        seed = arguments.seed + rounds
        rounds += 1
        try:
            counts += run_round(seed)
        except Exception as error:
            violations += 1
            print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
    print(f"{rounds} rounds, {violations} violations")
    for name, count in sorted(counts.items()):
        print(f"  {count:8} {name}")
    return int(violations > 0)


if __name__ == "__main__":
    sys.exit(main())
