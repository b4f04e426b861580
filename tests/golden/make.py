"""How the golden trace was made: `python -m tests.golden.make FILE`. Later readers must understand the file as it is.

The cache manager is driven by a seeded walk through what a trace can hold: shared prefixes, forks and copies,
evictions, preemption by recompute and by swap, ends. Every record carries the manager's own memory figures, so
whoever folds the operations can be held to them.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from engine.trace.events import Op, Sample
from engine.trace.log import TraceWriter
from engine.trace.records import Header, Machine, ModelFacts, Output, StepRecord, Timing, TokenizerFacts
from tests.unit.cache.replay import KV_BYTES_PER_TOKEN, CacheRun

GOLDEN = Path(__file__).parent
NUM_BLOCKS, BLOCK_SIZE, SWAP_SPACE = 12, 4, 6
MOVES = ["arrive"] * 2 + ["append"] * 4 + ["fork", "preempt"] + ["return"] * 3 + ["free", "give up"]
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
    """Writes down what `CacheRun` folds."""

    def __init__(self, log: TraceWriter) -> None:
        super().__init__(NUM_BLOCKS, BLOCK_SIZE, swap_space=SWAP_SPACE)
        self._log = log

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
                index=index, kind="step", step=index, ops=ops, outputs=outputs, timing=Timing(at=0), memory=memory
            )
        )
        return ops


def walk(log: TraceWriter, seed: int, num_moves: int) -> None:
    """A seeded walk of `num_moves` moves, each of which is one or a few records."""
    chance, run, next_seq = random.Random(seed), Recorder(log), 0
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
    run.fold()


def make(path: Path) -> None:
    """Write the golden trace to `path`."""
    with TraceWriter(HEADER, path) as log:
        walk(log, seed=8, num_moves=150)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / "cache.kvtrace")
