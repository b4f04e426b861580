"""Decode steps on static, padded buffers, as a replayed graph: the same logits and the same store as without."""

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.cache.kv_plane import PlainPlane
from engine.cache.kv_store import KVStore
from engine.model.attention_backend import AttentionBackend, AttentionCall, AttentionOutput
from engine.model.attention_gather import GatherAttention, attend_slice
from engine.model.batch import SequenceSlice, StepBatch
from engine.model.capture import CaptureRequest
from engine.model.compiled_forward import CompiledForward
from engine.model.cuda_graphs import GraphInputs
from engine.model.loader import from_module
from engine.model.runner import ModelRunner
from tests.tiny_models import VOCAB_SIZE, tiny_model

BLOCK_SIZE, BLOCKS, LONGEST = 4, 60, 64


class ByTables(AttentionBackend):
    """Backend that decodes by block tables alone, like a kernel."""

    reads_tables_only = True

    def forward(
        self, call: AttentionCall, q: Tensor, store: KVStore, batch: StepBatch, needs_weights: bool
    ) -> AttentionOutput:
        if batch.prefills or needs_weights:
            return GatherAttention().forward(call, q, store, batch, needs_weights)
        tables = batch.decode_tables(batch.reach(call.layer, call.sliding_window))
        outputs = []
        for row in range(q.shape[0]):
            positions = torch.arange(int(tables.starts[row]), int(tables.lengths[row]))
            places = tables.block_tables[row, positions // store.block_size]
            k, v = store.gather(call.layer, places * store.block_size + positions % store.block_size)
            hidden = torch.zeros(1, len(positions), dtype=torch.bool)
            outputs.append(attend_slice(call, q[row : row + 1], k.transpose(0, 1), v.transpose(0, 1), hidden)[0])
        return AttentionOutput(torch.cat(outputs), None, [])


class FakeGraph:
    """Graph that calls the captured function again."""

    def __init__(self, run: Callable[[], Tensor]) -> None:
        self._run, self.out = run, run()
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        self.out.copy_(self._run())


class FakeGraphs:
    def __init__(self) -> None:
        self.made: list[FakeGraph] = []

    def __call__(self, run: Callable[[], Tensor]) -> FakeGraph:
        self.made.append(FakeGraph(run))
        return self.made[-1]

    def num_bytes(self) -> int:
        return 10 * len(self.made)


def runners(family: str, max_size: int) -> tuple[ModelRunner, ModelRunner, FakeGraphs]:
    model, graphs = from_module(tiny_model(family)), FakeGraphs()
    plain = ModelRunner(model, BLOCKS, BLOCK_SIZE, LONGEST, backend=ByTables())
    graphed = ModelRunner(
        model, BLOCKS, BLOCK_SIZE, LONGEST, backend=ByTables(), max_graph_size=max_size, new_graphs=graphs
    )
    return plain, graphed, graphs


def steps(seed: int, count: int) -> list[list[SequenceSlice]]:
    """Return prompts of `count` sequences, then decodes of some of them, in tables with blocks in any order."""
    rng = random.Random(seed)
    blocks = rng.sample(range(BLOCKS), BLOCKS)
    tables = [[[blocks.pop() for _ in range(6)]] for _ in range(count)]
    lengths = [rng.randint(2, 9) for _ in range(count)]
    made = [[SequenceSlice(i, rng.choices(range(VOCAB_SIZE), k=lengths[i]), 0, tables[i], True) for i in range(count)]]
    for _ in range(6):
        chosen = rng.sample(range(count), rng.randint(1, count))
        made.append([SequenceSlice(i, [rng.randrange(VOCAB_SIZE)], lengths[i], tables[i], True) for i in chosen])
        for i in chosen:
            lengths[i] += 1
    return made


def compiled_form(runner: ModelRunner) -> CompiledForward:
    """Return the model itself, with the interface of compiled code."""

    def many(ids: Tensor, positions: Tensor, keep: Tensor) -> list[Tensor]:
        output = runner.model.module(input_ids=ids, position_ids=positions, use_cache=False)
        return [output.logits[0][keep].float()]

    return CompiledForward(lambda ids, positions: many(ids, positions, torch.arange(1)), many, None)


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt_oss"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_padded_replay_computes_what_a_plain_step_does(family: str, seed: int, is_compiled: bool) -> None:
    plain, graphed, graphs = runners(family, 6)
    graphed.compiled = compiled_form(graphed) if is_compiled else None
    for step in steps(seed, 7):
        torch.testing.assert_close(graphed.execute(step).logits, plain.execute(step).logits, atol=1e-5, rtol=1e-5)
    for one, other in zip(graphed.kv_store.pools(range(3)), plain.kv_store.pools(range(3)), strict=True):
        assert one.shape[0] == BLOCKS + 1, "the scratch block lies behind those that have an id"
        torch.testing.assert_close(one[:BLOCKS], other, atol=1e-5, rtol=1e-5)
    assert graphs.made and all(graph.replays for graph in graphs.made)
    assert graphed.graphs is not None and graphed.graphs.num_bytes == 10 * len(graphs.made)


def test_sizes_double_up_to_the_largest() -> None:
    _, graphed, graphs = runners("llama", 6)
    assert graphed.graphs is not None and graphed.graphs.sizes == [1, 2, 4, 6]
    prompts, *_ = steps(0, 7)
    graphed.execute(prompts)
    made = []
    for count in (1, 2, 3, 4, 5, 6, 7, 3, 1):
        decodes = [piece._replace(token_ids=[5], start=len(piece.token_ids)) for piece in prompts[:count]]
        graphed.execute(decodes)
        made.append(len(graphs.made))
    assert made == [1, 2, 3, 3, 4, 4, 4, 4, 4], "7 are too many; what was captured is replayed"


def test_padding_reads_and_writes_the_scratch_block_alone() -> None:
    _, graphed, _ = runners("llama", 4)
    table = graphed._slot_table
    step = [SequenceSlice(i, [7], 5, [[i, 10 + i]], True) for i in range(3)]
    batch = StepBatch(step, table, torch.device("cpu"))
    reach = batch.reach(0, None)
    inputs = GraphInputs(4, 512, table, torch.device("cpu"), [reach], [BLOCKS])
    inputs.load(batch)
    tables = inputs.decode_tables(reach)
    assert inputs.slot_mapping(reach).tolist() == [41, 45, 49, BLOCKS * BLOCK_SIZE]
    assert tables.lengths.tolist() == [6, 6, 6, 1] and tables.starts.tolist() == [0] * 4
    assert set(tables.block_tables[3].tolist()) == {BLOCKS}
    assert inputs.input_ids.tolist() == [[7, 7, 7, 0]] and inputs.position_ids.tolist() == [[5, 5, 5, 0]]


def test_everything_else_is_launched_as_before() -> None:
    """Other steps are prefills, mixed steps, and steps with captures."""
    _, graphed, graphs = runners("llama", 8)
    prompts, *_ = steps(1, 3)
    graphed.execute(prompts)
    decode = [prompts[0]._replace(token_ids=[5], start=len(prompts[0].token_ids))]
    graphed.execute(decode, CaptureRequest())
    graphed.execute([*decode, prompts[1]])
    graphed.uses_graphs = False
    graphed.execute(decode)
    assert not graphs.made
    model = from_module(tiny_model("llama"))
    quantized = ModelRunner(model, 8, 4, 64, "int8", backend=ByTables(), max_graph_size=8, new_graphs=graphs)
    assert quantized.graphs is None and isinstance(graphed.kv_store.keys[0], PlainPlane)
    assert ModelRunner(model, 8, 4, 64, backend=GatherAttention(), max_graph_size=8).graphs is None


def test_a_pass_that_cannot_be_captured_is_launched_as_before() -> None:
    def refuse(run: Callable[[], Tensor]) -> FakeGraph:
        raise RuntimeError("operation not permitted when stream is capturing")

    refuse.num_bytes = lambda: 0  # type: ignore[attr-defined]
    model = from_module(tiny_model("llama"))
    plain, _, _ = runners("llama", 4)
    runner = ModelRunner(model, BLOCKS, BLOCK_SIZE, LONGEST, backend=ByTables(), max_graph_size=4, new_graphs=refuse)
    for step in steps(2, 3):
        assert torch.equal(runner.execute(step).logits, plain.execute(step).logits)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_captured_decode_equals_an_eager_one_on_a_gpu() -> None:
    model = from_module(tiny_model("llama").cuda())
    plain = ModelRunner(model, BLOCKS, BLOCK_SIZE, LONGEST)
    graphed = ModelRunner(model, BLOCKS, BLOCK_SIZE, LONGEST, max_graph_size=8)
    for step in steps(3, 7):
        torch.testing.assert_close(graphed.execute(step).logits, plain.execute(step).logits, atol=1e-4, rtol=1e-4)
    assert graphed.graphs is not None and graphed.graphs._captured
