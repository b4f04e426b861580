"""Mistakes that other engines have shipped, each as a run of this one that would show it."""

from msgspec.structs import replace

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.trace.operations import Lookup, Preempt, Share
from engine.trace.records import StepRecord
from tests.unit.engine.runs import GREEDY, PROMPTS, ops_of, tiny_llama

CONFIG = EngineConfig(block_size=4, num_blocks=32, max_model_len=64)
WHOLE = PROMPTS[0][:16]  # exactly 4 blocks


def run(config: EngineConfig, *prompts: list[int], apart: bool = False) -> tuple[list[list[int]], list[StepRecord]]:
    """Outputs and records of prompts that come together, or each when the one before is done."""
    records = []
    with Engine(tiny_llama(), config) as engine:
        requests = []
        for prompt in prompts:
            requests.append(engine.add_request(prompt, GREEDY))
            while apart and engine.has_unfinished():
                records.append(engine.step())
        while engine.has_unfinished():
            records.append(engine.step())
            engine.check_integrity()
        return [r.output_token_ids for r in requests], records


def alone(prompt: list[int]) -> list[int]:
    return run(replace(CONFIG, enable_prefix_caching=False), prompt)[0][0]


def test_a_fully_cached_prompt_of_whole_blocks_schedules_a_token() -> None:
    """nano-vllm#144: 16 cached tokens left nothing to compute. Here 12 hit and the last block is computed."""
    outputs, records = run(CONFIG, WHOLE, WHOLE, apart=True)
    second = next(r for r in records if r.batch and r.batch[0].seq_id == 1)
    assert [(b.start, len(b.token_ids)) for b in second.batch] == [(12, 4)]
    assert outputs == [alone(WHOLE)] * 2


def test_a_reallocated_block_is_not_found_under_its_old_hash() -> None:
    """nano-vllm#163: the first prompt's blocks were taken by the second one; the third, equal to the first, must not
    read them. 7 blocks hold 16 + 12 - 1 tokens of one request."""
    prompts = [WHOLE, [i + 1 for i in WHOLE], WHOLE]
    outputs, records = run(replace(CONFIG, num_blocks=7), *prompts, apart=True)
    assert outputs == [alone(p) for p in prompts]
    third = [op for r in records for op in ops_of(r, Lookup)][-1]
    assert (third.verdict, third.reason, third.evicted_for) == ("miss", "evicted", 1)


def test_a_preempted_sequence_that_hits_its_own_blocks_computes_only_the_rest() -> None:
    """nano-vllm#211: after a preemption and a prefix hit a step computed beyond the sequence's end."""
    prompts = [PROMPTS[5], PROMPTS[0]]
    outputs, records = run(replace(CONFIG, num_blocks=8), *prompts)
    (preempt,) = [op for r in records for op in ops_of(r, Preempt)][:1]
    hits = [op for r in records for op in ops_of(r, Lookup) if op.seq_id == preempt.seq_id][1:]
    assert hits and hits[0].num_hit_tokens > 0, "else this does not test it"
    for record in records:
        for entry in record.batch:
            assert entry.context_len <= len(prompts[entry.seq_id]) + 12 - 1
    assert outputs == [alone(p) for p in prompts]


def test_two_equal_prompts_in_one_step_share_and_say_the_same() -> None:
    """nano-vllm#219: the second read blocks that the first had not written."""
    outputs, records = run(CONFIG, PROMPTS[0], PROMPTS[0])
    assert [op.seq_id for op in ops_of(records[0], Share)] == [1] * 4
    assert outputs == [alone(PROMPTS[0])] * 2


def test_a_full_pool_does_not_hang() -> None:
    """vllm#1607: nothing went on at 100 % use. 7 blocks are what one request needs at its end, and there are three."""
    prompts = [WHOLE, [i + 1 for i in WHOLE], [i + 2 for i in WHOLE]]
    outputs, records = run(replace(CONFIG, num_blocks=7), *prompts)
    assert max(r.memory.blocks_held for r in records) == 7 and len(records) < 100
    assert outputs == [alone(p) for p in prompts]


def test_no_token_sees_what_comes_after_it() -> None:
    """transformers#48296: an attention function under an unknown name silently lost its causal mask. The log
    probabilities of the first tokens do not depend on the last ones."""
    found = []
    for tail in ([50, 51, 52], [9, 8, 7]):
        with Engine(tiny_llama(), CONFIG) as engine:
            engine.add_request([*PROMPTS[0], *tail], SamplingParams(max_tokens=1, prompt_logprobs=0))
            found.append([item.logprob for item in engine.step().prompt_logprobs])
    same = len(PROMPTS[0]) - 1
    assert found[0][:same] == found[1][:same] and found[0][same:] != found[1][same:]


def test_a_resumed_sequence_samples_from_its_last_position() -> None:
    """Sampled elsewhere, its output would differ from what it is without preemption; so would the count of tokens."""
    prompts = [PROMPTS[0], PROMPTS[5], PROMPTS[2], PROMPTS[4]]
    outputs, records = run(replace(CONFIG, num_blocks=8), *prompts)
    resumed = {op.seq_id for r in records for op in ops_of(r, Preempt)}
    assert resumed, "else this does not test it"
    assert outputs == [alone(p) for p in prompts]
    assert [sum(o.seq_id == i for r in records for o in r.outputs) for i in range(4)] == [12] * 4
