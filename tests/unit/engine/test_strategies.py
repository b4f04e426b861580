"""Each scene shows, in each language, the behaviour that its text describes."""

from itertools import pairwise

import pytest

from app.scenes.presets import PRESETS
from app.scenes.scene_texts import languages, prompts_of
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.trace.operations import (
    RELEASED,
    Admit,
    Allocate,
    Copy,
    Defer,
    Finish,
    Fork,
    Lookup,
    Preempt,
    Release,
    Verify,
)
from tests.scene_runs import Played, play

in_every_language = pytest.mark.parametrize("language", languages())


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model("bundled")


@pytest.fixture(scope="module")
def hybrid() -> LoadedModel:
    return load_model("bundled-hybrid")


class MemoryRecorder:
    """Memory of a run after each step."""

    def __init__(self) -> None:
        self.empty: list[int] = []  # maximum of empty slots of a running sequence
        self.held: list[list[int]] = []  # blocks in tables, per group of layers

    def __call__(self, engine: Engine) -> None:
        now = engine.snapshot()
        size = engine.config.block_size
        empty = [len(now.block_tables[i][0]) * size - now.num_computed_tokens[i] for i in now.running]
        self.empty.append(max(empty, default=0))
        groups = range(len(engine.block_groups))
        self.held.append([sum(b != RELEASED for table in now.block_tables.values() for b in table[g]) for g in groups])


def computed(played: Played, seq_id: int) -> list[tuple[str, int]]:
    """Return phase and number of tokens of each step that computed the sequence."""
    return [(e.phase, len(e.token_ids)) for record in played.steps for e in record.batch if e.seq_id == seq_id]


def test_every_scene_has_a_test() -> None:
    assert [p.id for p in PRESETS] == [
        *(
            "moon",
            "tokens",
            "shared-prefix",
            "day",
            "samples",
            "beams",
            "batch",
            "chunks",
            "preemption",
            "fragments",
            "hybrid",
            "state",
            "sinks",
        ),
        *("guesses", "int4", "long"),
    ]


@in_every_language
@pytest.mark.parametrize("scene_id", ["moon", "tokens", "int4"])
def test_one_prompt_is_prefilled_at_once_and_decoded_token_by_token(
    model: LoadedModel, scene_id: str, language: str
) -> None:
    first, *others = [r.batch[0] for r in play(model, scene_id, language).steps]
    assert first.phase == "prefill" and first.samples
    assert {(e.phase, len(e.token_ids)) for e in others} == {("decode", 1)}
    assert [e.context_len for e in others] == [first.context_len + i for i in range(1, len(others) + 1)]


@in_every_language
def test_some_words_are_several_tokens(model: LoadedModel, language: str) -> None:
    (prompt,) = prompts_of("presets", "tokens", language)
    assert model.tokenizer is not None
    words = len(prompt.split()) if language == "en" else len(prompt)
    assert len(model.tokenizer.encode(prompt)) > words


@in_every_language
def test_a_second_prompt_with_the_same_prefix_hits_four_blocks(model: LoadedModel, language: str) -> None:
    """The 16 common tokens are 4 blocks of 4, which the first prompt has filled."""
    played = play(model, "shared-prefix", language)
    assert [record.kind for record in played.records[:5]] == ["submit", "step", "step", "submit", "step"]
    hit = [op for _, op in played.ops(Lookup) if isinstance(op, Lookup) and op.verdict == "hit"]
    assert [(op.seq_id, op.num_hit_tokens, len(op.block_ids)) for op in hit] == [(1, 16, 4)]
    assert {e.seq_id: (e.phase, e.start) for e in played.steps[2].batch}[1] == ("prefill", 16)
    assert play(model, "shared-prefix", language, enable_prefix_caching=False).texts == played.texts


@in_every_language
def test_a_date_at_the_start_prevents_hits_and_at_the_end_does_not(model: LoadedModel, language: str) -> None:
    lookups = [op for _, op in play(model, "day", language).ops(Lookup) if isinstance(op, Lookup)]
    found = {op.seq_id: (op.num_hit_tokens, op.closest_seq_id) for op in lookups}
    assert (found[1][0], found[3]) == (0, (16, 2))


@in_every_language
def test_samples_share_the_prompt_and_copy_on_write(model: LoadedModel, language: str) -> None:
    played = play(model, "samples", language)
    assert len(played.ops(Fork)) == 2
    assert len(played.ops(Copy)) == 2, "all owners of the partial last block but one copy it"
    assert len([e for r in played.steps for e in r.batch if e.phase == "prefill"]) == 1
    first = [output.token_id for output in played.steps[0].outputs]
    assert len(first) == len(set(first)) == 3, "the first tokens differ"


@in_every_language
def test_beams_fork_are_dropped_and_hold_fewer_blocks_than_three_sequences(model: LoadedModel, language: str) -> None:
    played = play(model, "beams", language)
    forks = [op for _, op in played.ops(Fork) if isinstance(op, Fork)]
    ends = [op for _, op in played.ops(Finish) if isinstance(op, Finish)]
    assert forks and {op.reason for op in forks} == {"beam"}
    assert sorted(op.reason for op in ends) == ["dropped"] * (len(forks) - 2) + ["length"] * 3
    assert max(len(record.batch) for record in played.steps) == 3
    last = played.steps[-1]
    separate = sum(-(-entry.context_len // 4) for entry in last.batch)
    assert max(record.memory.blocks_held for record in played.steps) < separate


@in_every_language
def test_a_late_long_prompt_does_not_delay_decoding(model: LoadedModel, language: str) -> None:
    played = play(model, "chunks", language)
    assert [record.kind for record in played.records[:5]] == ["submit", "step", "step", "step", "submit"]
    chunked = [r for r in played.steps if any(e.seq_id == 1 and e.phase == "prefill" for e in r.batch)]
    assert len(chunked) >= 4 and chunked == played.steps[3 : 3 + len(chunked)]
    for record in chunked[:-1]:
        assert [(e.seq_id, e.phase, len(e.token_ids)) for e in record.batch] == [(0, "decode", 1), (1, "prefill", 15)]
    last = {e.seq_id: (e.phase, len(e.token_ids)) for e in chunked[-1].batch}
    assert last[0] == ("decode", 1) and last[1][1] <= 15
    assert max(sum(len(e.token_ids) for e in r.batch) for r in played.steps) == 16


@in_every_language
def test_a_third_poem_waits_because_of_fragmentation(model: LoadedModel, language: str) -> None:
    """The first poem ends at step 24 and the second 8 steps later. The third waits from step 25 to 32."""
    played = play(model, "fragments", language)
    waits = [op for _, op in played.ops(Defer) if isinstance(op, Defer) and op.seq_id == 2]
    assert {op.reason for op in waits} == {"no_free_blocks", "fragmented"}
    refused = [op for op in waits if op.reason == "fragmented"]
    assert len(refused) == 8
    assert all(op.num_free is not None and op.available < op.needed <= op.num_free for op in refused)
    assert next(r.step for r in played.steps if any(e.seq_id == 2 for e in r.batch)) == 33


@in_every_language
def test_too_few_blocks_preempt_the_last_admitted_and_change_no_text(model: LoadedModel, language: str) -> None:
    played = play(model, "preemption", language)
    preempted = [op for _, op in played.ops(Preempt) if isinstance(op, Preempt)]
    assert preempted[0].seq_id == 2, "the scene shows this sequence"
    resumed = [op for _, op in played.ops(Admit) if isinstance(op, Admit) and op.resumed]
    assert len(resumed) == len(preempted)
    roomy = play(model, "preemption", language, num_blocks=64)
    assert not roomy.ops(Preempt)
    assert played.texts == roomy.texts
    total = [sum(count for seq in range(3) for _, count in computed(run, seq)) for run in (played, roomy)]
    assert total[0] > total[1], "tokens are computed again"


@in_every_language
def test_windowed_layers_of_a_hybrid_hold_at_most_three_blocks(model: LoadedModel, language: str) -> None:
    """The window is 8 tokens, in blocks of 4. Full layers hold all p + 38 tokens until the last step."""
    watch = MemoryRecorder()
    played = play(model, "hybrid", language, after_each=watch)
    held = watch.held[:-1]  # the last step frees all blocks
    assert max(windowed for _, windowed in held) == 3
    full = [full for full, _ in held]
    num_prompt = sum(count for phase, count in computed(played, 0) if phase == "prefill")
    assert full == sorted(full) and full[-1] == -(-(num_prompt + 38) // 4)


@in_every_language
def test_a_recurrent_state_always_holds_one_block(hybrid: LoadedModel, language: str) -> None:
    watch = MemoryRecorder()
    played = play(hybrid, "state", language, after_each=watch)
    held = watch.held[:-1]
    assert {states for _, states in held} == {1}
    assert [keys for keys, _ in held] == [-(-step.batch[0].context_len // 4) for step in played.steps[:-1]]


@in_every_language
def test_a_window_with_sinks_bounds_the_cache(model: LoadedModel, language: str) -> None:
    """A window of 16 covers at most 5 blocks of 4, and the sinks one more."""
    watch = MemoryRecorder()
    played = play(model, "sinks", language, after_each=watch)
    held = [full for (full,) in watch.held]
    assert max(held) == 6 and len(held) == 48
    assert all(op.reason == "policy" for _, op in played.ops(Release) if isinstance(op, Release))
    assert len(played.ops(Release)) >= 6


@in_every_language
def test_wrong_drafts_are_rejected_and_change_no_text(model: LoadedModel, language: str) -> None:
    played = play(model, "guesses", language)
    assert played.texts == play(model, "guesses", language, speculative_config=None).texts
    verified = [op for _, op in played.ops(Verify) if isinstance(op, Verify)]
    accepted, drafted = sum(op.num_accepted for op in verified), sum(op.num_drafted for op in verified)
    assert drafted > accepted > 0
    assert len(played.steps) == len(played.texts[0]) - accepted


@in_every_language
def test_int4_stores_a_token_in_a_sixth_of_the_bytes(model: LoadedModel, language: str) -> None:
    """4 layers of 2 KV heads have 64 values each: 2048 bytes in float32, and 256 + 64 bytes of scales in int4."""
    small, plain = play(model, "int4", language), play(model, "int4", language, kv_cache_dtype="auto")
    bytes_held = [[record.memory.bytes_held for record in run.steps[:8]] for run in (small, plain)]
    assert [b / a for a, b in zip(*bytes_held, strict=True)] == [2048 / 320] * 8


@in_every_language
def test_the_long_poem_allocates_a_block_every_sixteen_steps(model: LoadedModel, language: str) -> None:
    """Given p + 272 tokens in blocks of 16, the last is never written."""
    watch = MemoryRecorder()
    played = play(model, "long", language, after_each=watch)
    assert len(played.texts[0]) == 272
    taken = [index for index, _ in played.ops(Allocate)]
    num_prompt = sum(count for phase, count in computed(played, 0) if phase == "prefill")
    assert len(taken) == -(-(num_prompt + 271) // 16)
    assert {b - a for a, b in pairwise(taken[1:])} == {16}
    assert max(watch.empty) <= 15


@in_every_language
def test_continuous_batching_admits_a_prompt_after_each_finish(model: LoadedModel, language: str) -> None:
    watch = MemoryRecorder()
    played = play(model, "batch", language, after_each=watch)
    assert all(op.reason == "stop" for _, op in played.ops(Finish) if isinstance(op, Finish)), "at the end of the poem"
    finished = [index for index, _ in played.ops(Finish)]
    admitted = [index for index, _ in played.ops(Admit)]
    assert len(set(finished)) > 1, "at different steps"
    assert admitted[0] == admitted[1] < admitted[2] < admitted[3]
    for index in admitted[2:]:
        assert index - 1 in finished, "admitted in the step after a finish"
        assert {e.phase for e in played.records[index].batch} == {"prefill", "decode"}
    assert max(len(r.batch) for r in played.steps) == 2
    assert max(watch.empty) <= 3


def test_strategies_agree_on_the_tokens_and_differ_in_work(model: LoadedModel) -> None:
    """n new tokens after p compute n·p + n(n−1)/2 tokens without a cache and p + n − 1 with one."""
    p, n = 16, 24
    (prompt,) = prompts_of("presets", "moon", "zh")
    computed: dict[str, int] = {}
    held: dict[str, list[int]] = {}
    texts: dict[str, list[int]] = {}
    for strategy in ("none", "contiguous", "paged"):
        with Engine(model, EngineConfig(strategy=strategy, block_size=4, num_blocks=48), keep_log=False) as engine:
            request = engine.add_request(prompt, SamplingParams(max_tokens=n, ignore_eos=True))
            computed[strategy], held[strategy] = 0, []
            while engine.has_unfinished():
                record = engine.step()
                computed[strategy] += sum(len(e.token_ids) for e in record.batch)
                held[strategy].append(record.memory.blocks_held * record.memory.block_size)
            texts[strategy] = request.output_token_ids
    assert computed == {"none": n * p + n * (n - 1) // 2, "contiguous": p + n - 1, "paged": p + n - 1}
    assert texts["none"] == texts["contiguous"] == texts["paged"]
    assert set(held["none"]) == {0}, "nothing is cached between steps"
    assert set(held["contiguous"][:-1]) == {4 * 48}, "max_model_len slots from the first step on"
    assert held["paged"][:-1] == [-(-(p + i) // 4) * 4 for i in range(n - 1)]
