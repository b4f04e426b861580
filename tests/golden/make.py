"""Generator of the golden traces: `python -m tests.golden.make FILE`. Later readers must understand them unchanged.

The cache manager is driven by a seeded walk through what a trace can contain: shared prefixes, forks and copies,
evictions, preemption by recompute and by swap, ends (`cache.kvtrace`); with layers that have a state
(`states.kvtrace`); and with a store outside the pool, blocks that are stored and loaded, in two groups of layers of
which one has a window (`outside.kvtrace`). Every record carries the manager's own memory figures, so any fold over the
operations can be checked against them. `instances.kvtrace` is of three engines of a small model, with arrays: transfers
between them, and two that end and restart. `hybrid.kvtrace` is of an engine whose model has layers with a state, with
preemptions and hits. `drafts.kvtrace` is of one that drafts, `forgetting.kvtrace` of one that forgets tokens
(`forget_policy`).
"""

import random
import sys
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from engine.cache.attention_span import RetentionPolicy, state_retention
from engine.cache.incoming import BlockSource, Loading
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.capture import CaptureRequest
from engine.model.loader import from_module
from engine.trace.log import TraceWriter
from engine.trace.operations import Admit, AllocateReason, Cache, LookupExternal, Medium, Op, Sample, Store, Write
from engine.trace.records import (
    BatchEntry,
    BlockGroup,
    Header,
    Machine,
    ModelFacts,
    Output,
    StepRecord,
    TierFigures,
    Timing,
    TokenizerFacts,
)
from tests.golden import observed
from tests.hybrid_types import hybrid_model
from tests.unit.cache.replay import KV_BYTES_PER_TOKEN, STATE_BYTES, CacheRun
from tests.unit.cluster.clusters import log_of_everything
from tests.unit.engine.runs import tiny_llama

GOLDEN = Path(__file__).parent
NUM_BLOCKS, BLOCK_SIZE, SWAP_SPACE = 12, 4, 6
MOVES = ["arrive"] * 2 + ["append"] * 4 + ["fork", "preempt"] + ["return"] * 3 + ["free", "give up"]
CHECKPOINT = 8  # tokens
WINDOW = 6  # of the second group of layers, where there is one
MOST: dict[Medium, int] = {"cpu": 12, "disk": 40}  # blocks that a tier takes
PREFIX = list(range(100, 112))  # three full blocks that many prompts begin with

HEADER = Header(
    generator="tests.golden.make",
    created="2026-01-01T00:00:00Z",
    model=ModelFacts(
        name="none",
        architecture="none",
        num_params=0,
        num_layers=1,
        hidden_size=8,
        intermediate_size=8,
        num_heads=1,
        num_kv_heads=1,
        head_dim=8,
        v_head_dim=8,
        vocab_size=256,
        max_position=64,
        dtype="float32",
        sliding_windows=[None],
    ),
    tokenizer=TokenizerFacts(name="none", vocab_size=256, eos_token_ids=[]),
    engine={"num_blocks": NUM_BLOCKS, "block_size": BLOCK_SIZE, "swap_space": SWAP_SPACE},
    kv_bytes_per_token=KV_BYTES_PER_TOKEN,
    machine=Machine(device="none", processor="", num_threads=1, versions={}),
)


class Recorder(CacheRun):
    """Records the operations that `CacheRun` folds."""

    def __init__(
        self, log: TraceWriter, swap_space: int = SWAP_SPACE, other_groups: tuple[RetentionPolicy, ...] = ()
    ) -> None:
        super().__init__(NUM_BLOCKS, BLOCK_SIZE, swap_space=swap_space, other_groups=other_groups)
        self._log = log

    def _entry(self, op: Write) -> BatchEntry:
        sequence, end = self.replay.state.sequences[op.seq_id], op.start + op.num_tokens
        return BatchEntry(
            seq_id=op.seq_id,
            phase="prefill" if op.start < sequence.num_prompt_tokens else "decode",
            start=op.start,
            token_ids=sequence.token_ids[op.start : end],
            context_len=end,
            samples=end == len(sequence.token_ids),
        )

    def tiers(self) -> list[TierFigures]:
        """Return the content outside the pool: always empty."""
        return []

    def fold(self) -> list[Op]:
        ops = super().fold()
        self.manager.take_moves()  # there are no tensors to copy
        index = len(self._log)
        outputs = [
            Output(seq_id=op.seq_id, token_id=op.token_id, token_bytes=b"?", text="?", logprob=-0.25, top=[])
            for op in ops
            if isinstance(op, Sample)
        ]
        memory = self.manager.memory()
        self._log.append(
            StepRecord(
                index=index,
                kind="step",
                step=index + 1,
                batch=[self._entry(op) for op in ops if isinstance(op, Write)],
                ops=ops,
                outputs=outputs,
                timing=Timing(at=0),
                memory=memory,
                tiers=self.tiers(),
            )
        )
        return ops


def walk(log: TraceWriter, seed: int, num_moves: int, other_groups: tuple[RetentionPolicy, ...] = ()) -> None:
    """Take a seeded walk of `num_moves` moves, each of which is one or a few records."""
    chance, run, next_seq = random.Random(seed), Recorder(log, other_groups=other_groups), 0
    for _ in range(num_moves):
        state = run.replay.state
        running = [i for i in state.running if len(run.tokens[i]) < 40]
        move = chance.choice(MOVES)
        if move == "arrive" and len(state.sequences) - len(state.finished) < 6:
            shared = PREFIX[: chance.choice((0, 4, 8, 12))]
            run.submit(next_seq, shared + [chance.randrange(256) for _ in range(chance.randrange(1, 6))])
            next_seq += 1
            admit_all(run, next_seq - 1)
        elif move == "append" and running:
            run.append(chance.choice(running), chance.randrange(256))
        elif move == "fork" and running:
            run.fork(chance.choice(running), next_seq)
            next_seq += 1
        elif move == "preempt" and state.running:
            run.preempt(state.running[-1])
        elif move == "return" and state.waiting:
            seq_id = chance.choice(state.waiting)
            if state.sequences[seq_id].cpu_block_table:
                run.swap_in(seq_id)
            else:
                admit_all(run, seq_id)
        elif move == "free" and state.running:
            run.free(chance.choice(state.running))
        elif move == "give up" and state.waiting:
            run.free(chance.choice(state.waiting))


def admit_all(run: Recorder, seq_id: int) -> None:
    """Admit a waiting sequence and compute all of it, if there is room."""
    if run.admit(seq_id) is None:
        return
    run.promise(seq_id, len(run.tokens[seq_id]))
    run.write(seq_id, len(run.tokens[seq_id]))
    run.release(seq_id)
    run.fold()


def walk_states(log: TraceWriter, seed: int, num_moves: int) -> None:
    """Take the same walk with layers that keep a state beside those with keys."""
    walk(log, seed, num_moves, (state_retention(CHECKPOINT),))


class Outside(Recorder):
    """Scheduler steps with a store outside the pool: full blocks go to CPU memory while it has room, then to disk."""

    BLOCK_BYTES = BLOCK_SIZE * KV_BYTES_PER_TOKEN
    LOAD: ClassVar[dict[Medium, float]] = {"cpu": 0.0002, "disk": 0.0008}  # pretended seconds, for a block
    COMPUTE = 0.0003  # for a token

    def __init__(self, log: TraceWriter) -> None:
        super().__init__(log, swap_space=0, other_groups=(RetentionPolicy(WINDOW, 0, "window"),))
        self.there: dict[tuple[int, bytes], Medium] = {}

    def tiers(self) -> list[TierFigures]:
        held = list(self.there.values())
        return [
            TierFigures(medium=medium, num_blocks=n, num_bytes=n * self.BLOCK_BYTES, max_bytes=most * self.BLOCK_BYTES)
            for medium, most in MOST.items()
            for n in [held.count(medium)]
        ]

    def fold(self) -> list[Op]:
        """Store cached and computed blocks in the same record."""
        for op in list(self.replay.pending):
            if isinstance(op, Cache):
                self._store(self.manager.group_of(op.block_id), op)
        return super().fold()

    def _store(self, group: int, op: Cache) -> None:
        held = list(self.there.values())
        medium: Medium | None = next((tier for tier, most in MOST.items() if held.count(tier) < most), None)
        if medium is not None and (group, op.block_hash) not in self.there:
            self.there[group, op.block_hash] = medium
            self.replay.pending.append(
                Store(block_id=op.block_id, block_hash=op.block_hash, medium=medium, num_bytes=self.BLOCK_BYTES)
            )

    def admit_from_outside(self, seq_id: int) -> bool:
        """Admit all of a waiting sequence, with the blocks that the store has. Returns False without room."""
        tokens, manager = self.tokens[seq_id], self.manager
        match = manager.lookup(seq_id, tokens, None)
        hashes, first = manager.block_hashes(seq_id, tokens, None), match.num_tokens // BLOCK_SIZE
        lookup = LookupExternal(
            seq_id=seq_id, verdict="miss", num_tokens=(len(hashes) - first) * BLOCK_SIZE, num_found_tokens=0
        )
        loading = next(filter(None, (self._loading(hashes, first, end) for end in range(len(hashes), first, -1))), None)
        if loading is not None:
            num_blocks, media = loading.end - first, [s.medium for own in loading.sources for s in own.values()]
            load, compute = sum(map(self.LOAD.__getitem__, media)), num_blocks * BLOCK_SIZE * self.COMPUTE
            lookup = replace(
                lookup,
                verdict="load" if load < compute else "compute",
                num_found_tokens=num_blocks * BLOCK_SIZE,
                media=[max(own[i].medium for own in loading.sources if i in own) for i in range(first, loading.end)],
                num_bytes=len(media) * self.BLOCK_BYTES,
                load_seconds=load,
                compute_seconds=compute,
            )
            loading = loading if lookup.verdict == "load" else None
        resumed = self.replay.state.sequences[seq_id].status == "preempted"
        num_external = 0 if loading is None else lookup.num_found_tokens
        followed = match if loading is None else manager.drop_unseen(match, loading)
        if not manager.demand(seq_id, len(tokens), followed.hits, loading).fits:
            return False
        self.replay.pending += [
            lookup,
            Admit(seq_id=seq_id, num_cached_tokens=match.num_tokens, resumed=resumed, num_external_tokens=num_external),
        ]
        reason: AllocateReason = "resume" if resumed else "admission"
        assert manager.allocate(seq_id, len(tokens), reason, followed.hits, loading)
        self.computed[seq_id] = match.num_tokens + num_external
        return True

    def _loading(self, hashes: list[bytes], first: int, end: int) -> Loading | None:
        """Return blocks [first, end) if the store has all of them that are needed."""
        sources: list[dict[int, BlockSource]] = []
        for group in range(len(self.manager.groups)):
            wanted = [i for i in self.manager.needed_blocks(group, end * BLOCK_SIZE) if i >= first]
            if any((group, hashes[i]) not in self.there for i in wanted):
                return None
            sources.append({i: BlockSource(hashes[i], self.there[group, hashes[i]]) for i in wanted})
        return Loading(first, end, sources, end * BLOCK_SIZE)


def walk_outside(log: TraceWriter, seed: int, num_moves: int) -> None:
    """Take a walk in which prompts with shared prefixes come and go, and the store keeps what the pool evicts."""
    chance, run, next_seq = random.Random(seed), Outside(log), 0
    for _ in range(num_moves):
        state = run.replay.state
        running = [i for i in state.running if len(run.tokens[i]) < 40]
        move = chance.choice(["arrive"] * 3 + ["append"] * 4 + ["fork", "preempt", "return"] + ["free"] * 3)
        if move == "arrive" and len(state.sequences) - len(state.finished) < 4:
            first, length = chance.choice((100, 120)), chance.choice((4, 8, 16, 20))
            run.submit(
                next_seq,
                list(range(first, first + length)) + [chance.randrange(256) for _ in range(chance.randrange(1, 6))],
            )
            next_seq += 1
            come_in(run, next_seq - 1)
        elif move == "append" and running:
            run.append(chance.choice(running), chance.randrange(256))
        elif move == "fork" and running:
            run.fork(chance.choice(running), next_seq)
            next_seq += 1
        elif move == "preempt" and state.running:
            run.preempt(state.running[-1])
        elif move == "return" and state.waiting:
            come_in(run, chance.choice(state.waiting))
        elif move == "free" and state.running:
            run.free(chance.choice(state.running))


def come_in(run: Outside, seq_id: int) -> None:
    """Admit a waiting sequence and compute what is missing, if there is room."""
    if run.admit_from_outside(seq_id):
        run.promise(seq_id, len(run.tokens[seq_id]))
        run.write(seq_id, len(run.tokens[seq_id]))
        run.release(seq_id)
        run.fold()


def outside_header() -> Header:
    """Return the header of `Outside`: two layers, each a group of its own, the second with a window."""
    groups = [
        BlockGroup(
            layers=[i],
            first_block=i * NUM_BLOCKS,
            num_blocks=NUM_BLOCKS,
            window=window,
            kv_bytes_per_token=KV_BYTES_PER_TOKEN,
        )
        for i, window in enumerate((None, WINDOW))
    ]
    return replace(
        HEADER,
        model=replace(HEADER.model, num_layers=2, sliding_windows=[None, WINDOW]),
        engine={"num_blocks": NUM_BLOCKS, "block_size": BLOCK_SIZE},
        kv_bytes_per_token=2 * KV_BYTES_PER_TOKEN,
        block_groups=groups,
    )


def states_header() -> Header:
    """Return the header of `walk_states`: a layer with keys, and one with a state, whose blocks form another group."""
    groups = [
        BlockGroup(layers=[0], first_block=0, num_blocks=NUM_BLOCKS, kv_bytes_per_token=KV_BYTES_PER_TOKEN),
        BlockGroup(
            layers=[],
            first_block=NUM_BLOCKS,
            num_blocks=NUM_BLOCKS,
            kv_bytes_per_token=0,
            state_bytes=STATE_BYTES,
            checkpoint=CHECKPOINT,
        ),
    ]
    model = replace(HEADER.model, layer_kinds=["state", "keys"], state_bytes=STATE_BYTES)
    return replace(HEADER, model=model, block_groups=groups)


def make(path: Path) -> None:
    """Write the trace of that name: `cache`, `states` or `outside`."""
    header, walked, seed = {
        "cache": (HEADER, walk, 8),
        "states": (states_header(), walk_states, 8),
        "outside": (outside_header(), walk_outside, 6),
    }[path.stem]
    with TraceWriter(header, path) as log:
        walked(log, seed, num_moves=150)


def log_of_hybrid(path: Path) -> None:
    """Write the log of an engine whose model keeps states in three of five layers; its pool is too small for all."""
    config = EngineConfig(
        block_size=4, num_blocks=20, max_num_seqs=4, max_num_batched_tokens=16, max_model_len=64, enforce_eager=True
    )
    with Engine(from_module(hybrid_model("qwen3_5_text")), config, log_path=path) as engine:
        for first in (3, 40, 3, 80):
            engine.add_request(list(range(first, first + 18)), SamplingParams(max_tokens=10, ignore_eos=True))
            engine.step()
        while engine.has_unfinished():
            engine.step()


def log_of_drafts(path: Path) -> None:
    """Write the log of an engine that drafts by prompt lookup, with a window in some layers."""
    config = EngineConfig(
        block_size=2,
        num_blocks=60,
        max_num_seqs=3,
        max_model_len=64,
        enforce_eager=True,
        attention_window=9,
        sliding_window_pattern=2,
        speculative_config='{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_min":1,"prompt_lookup_max":3}',
    )
    with Engine(tiny_llama(), config, log_path=path, capture=CaptureRequest()) as engine:
        for first in (3, 40, 3):
            engine.add_request(list(range(first, first + 5)) * 3, SamplingParams(max_tokens=16, ignore_eos=True))
            engine.step()
        while engine.has_unfinished():
            engine.step()


def log_of_forgetting(path: Path) -> None:
    """Write the log of an engine that forgets tokens, with preemptions, forks, a token that is kept, and arrays."""
    config = EngineConfig(
        block_size=2,
        num_blocks=20,
        max_model_len=32,
        max_num_batched_tokens=12,
        forget_policy="tova",
        forget_budget=5,
        forget_sinks=1,
        forget_recent=1,
        forget_compare=True,
    )
    sampling = [SamplingParams(max_tokens=6, ignore_eos=True)] * 2
    sampling.append(replace(sampling[0], n=2, temperature=1.0, seed=3))
    with Engine(tiny_llama(), config, log_path=path, capture=CaptureRequest()) as engine:
        for first, own in zip((3, 40, 80), sampling, strict=True):
            engine.add_request(list(range(first, first + 14)), own)
            engine.step()
        engine.keep(0, 14)
        while engine.has_unfinished():
            engine.step()


if __name__ == "__main__":
    if Path(sys.argv[1]).stem == "forgetting":
        log_of_forgetting(Path(sys.argv[1]))
    elif Path(sys.argv[1]).stem == "hybrid":
        log_of_hybrid(Path(sys.argv[1]))
    elif Path(sys.argv[1]).stem == "drafts":
        log_of_drafts(Path(sys.argv[1]))
    elif Path(sys.argv[1]).stem == "instances":
        log_of_everything(tiny_llama(), Path(sys.argv[1]), CaptureRequest())
    elif Path(sys.argv[1]).stem == "observed":
        observed.make(Path(sys.argv[1]))
    else:
        make(Path(sys.argv[1]))
