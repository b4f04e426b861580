"""Clusters of instances: tokens equal those of one engine, the log is valid, and no block leaks."""

from pathlib import Path

import pytest

from app.metrics import names
from app.metrics.fold import Fold
from app.metrics.tally import Tally
from engine.cluster.router import RejectedError
from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loader import from_module
from engine.requests.request_spec import RequestError
from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.operations import Arrive, Finish, Lost, Send, Submit, TransferFailed
from tests.tiny_models import FAMILIES, tiny_model, tiny_tokenizer
from tests.unit.cluster.clusters import GREEDY, Shape, ask, check_state, cluster_of, log_of_everything, outputs, run
from tests.unit.connector.pair import PROMPTS, SETTINGS, SHARED, baseline
from tests.unit.engine.runs import tiny_llama

PLAIN = EngineConfig(block_size=4, num_blocks=40)
SHAPES = {"1+1": Shape(1, 1), "2+2": Shape(2, 2), "two mixed": Shape(mixed=2), "all": Shape(1, 1, 1)}
CASES = [(name, "1+1") for name in SETTINGS] + [
    (name, shape) for shape in SHAPES if shape != "1+1" for name in ("plain", "swap", "hybrid")
]


def ops_of(path: Path) -> list[object]:
    with TraceReader(path) as log:
        return [op for index in range(len(log)) for op in log.record(index).ops]


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_clusters_give_the_tokens_of_one_engine(name: str, shape: str, tmp_path: Path) -> None:
    config, path = SETTINGS[name], tmp_path / "run.kvtrace"
    cluster = cluster_of(tiny_llama(), config, SHAPES[shape], log_path=path)
    found = cluster.submit([ask(prompt) for prompt in PROMPTS])
    run(cluster)
    cluster.close()
    assert list(check(path)) == []
    generated = outputs_in(path)
    assert [generated[one.request_id] for one in found] == baseline(config, PROMPTS)


def outputs_in(path: Path) -> dict[str, list[int]]:
    with TraceReader(path) as log:
        sequences = log.state_at(len(log) - 1).sequences.values()
        return {s.request_id: s.token_ids[s.num_prompt_tokens :] for s in sequences if "/" not in s.request_id}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_model_family_gives_the_tokens_of_one_engine(family: str, tmp_path: Path) -> None:
    model = from_module(tiny_model(family), tiny_tokenizer(), family)
    config, path = EngineConfig(block_size=2, num_blocks=64), tmp_path / "run.kvtrace"
    cluster = cluster_of(model, config, log_path=path)
    found = cluster.submit([ask(prompt) for prompt in PROMPTS])
    run(cluster)
    generated = outputs(cluster)
    cluster.close()
    assert [generated[one.request_id] for one in found] == baseline(config, PROMPTS, model)
    assert list(check(path)) == []


def test_the_same_inputs_give_the_same_log(tmp_path: Path) -> None:
    """The logs are equal except for clock readings."""
    logs = []
    for name in ("a", "b"):
        cluster = cluster_of(tiny_llama(), PLAIN, Shape(2, 1), log_path=tmp_path / name)
        cluster.submit([ask(prompt, SamplingParams(max_tokens=5, temperature=1.0)) for prompt in PROMPTS])
        run(cluster)
        records = [cluster.log.record(index) for index in range(len(cluster.log))]
        logs.append([(r.instance, r.kind, r.batch, r.outputs, [type(op) for op in r.ops]) for r in records])
        cluster.close()
    assert logs[0] == logs[1]


def test_random_draws_equal_those_of_one_engine() -> None:
    """The default seed depends on the request and not on the number of requests that an instance has served."""
    drawn = SamplingParams(max_tokens=9, temperature=1.0, ignore_eos=True)
    with Engine(tiny_llama(), PLAIN, keep_log=False) as engine:
        requests = [engine.add_request(prompt, drawn) for prompt in PROMPTS]
        while engine.has_unfinished():
            engine.step()
        expected = [request.output_token_ids for request in requests]
    cluster = cluster_of(tiny_llama(), PLAIN, Shape(2, 2))
    found = cluster.submit([ask(prompt, drawn) for prompt in PROMPTS])
    run(cluster)
    generated = outputs(cluster)
    cluster.close()
    assert [generated[one.request_id] for one in found] == expected


def test_samples_and_beams_fork_on_the_decode_instance() -> None:
    for sampling in (
        SamplingParams(max_tokens=6, n=3, temperature=1.0, seed=1, ignore_eos=True),
        SamplingParams(max_tokens=6, use_beam_search=True, beam_width=3, n=2, ignore_eos=True),
    ):
        with Engine(tiny_llama(), PLAIN, keep_log=False) as engine:
            request = engine.add_request(SHARED, sampling)
            while engine.has_unfinished():
                engine.step()
            expected = sorted(list(c.output_token_ids) for c in request.outputs)
        cluster = cluster_of(tiny_llama(), PLAIN)
        cluster.submit([ask(SHARED, sampling)])
        run(cluster)
        state = cluster.log.state_now()
        decoded = [s for s in state.sequences.values() if "/" not in s.request_id and s.finish_reason != "dropped"]
        ranked = sorted(decoded, key=lambda s: (s.rank is None, s.rank))[: sampling.n]
        assert sorted(s.token_ids[s.num_prompt_tokens :] for s in ranked) == expected
        assert all(s.instance == 1 for s in decoded)
        cluster.close()


def test_a_request_with_prompt_logprobs_runs_on_the_decode_instance_only() -> None:
    cluster = cluster_of(tiny_llama(), PLAIN)
    cluster.submit([ask(SHARED, SamplingParams(max_tokens=3, prompt_logprobs=1, ignore_eos=True))])
    run(cluster)
    records = [cluster.log.record(index) for index in range(len(cluster.log))]
    cluster.close()
    assert {record.instance for record in records} == {1}
    assert sum(len(record.prompt_logprobs) for record in records) == len(SHARED) - 1


@pytest.mark.parametrize("steps", range(12))
@pytest.mark.parametrize("index", [0, 1])
def test_a_lost_instance_ends_its_sequences_and_restarts(index: int, steps: int, tmp_path: Path) -> None:
    """Tokens are right, requests on a lost decode instance are aborted, and the next request is served."""
    path, expected = tmp_path / "run.kvtrace", baseline(PLAIN, PROMPTS)
    cluster = cluster_of(tiny_llama(), PLAIN, log_path=path, lease=0.5)
    found = cluster.submit([ask(prompt) for prompt in PROMPTS])
    for _ in range(steps):
        cluster.step()
    cluster.lose(index)
    run(cluster)
    again = cluster.submit([ask(PROMPTS[0])])
    run(cluster)
    check_state(cluster)
    state, generated = cluster.log.state_now(), outputs(cluster)
    cluster.close()
    assert list(check(path)) == []
    for one, tokens in zip(found, expected, strict=True):
        reasons = {s.finish_reason for s in state.sequences.values() if s.request_id == one.request_id}
        assert generated.get(one.request_id, []) == (
            tokens if reasons == {"length"} else tokens[: len(generated[one.request_id])]
        )
        assert index == 1 or reasons == {"length"}, "prompts are computed again"
    assert generated[again[0].request_id] == expected[0]
    assert memory_held(path) == 0 and not state.holding
    assert len([op for op in ops_of(path) if isinstance(op, Lost)]) == 1
    assert num_finished(path) == len(PROMPTS) + 1, "each request ends once"


def num_finished(path: Path) -> int:
    """Return the number of requests that the metrics count as finished."""
    with TraceReader(path) as log:
        tally = Tally(log.header.model.max_position)
        fold = Fold(log.header, tally)
        for index in range(len(log)):
            fold.read(log.record(index))
    assert fold.num_running == fold.num_waiting == 0
    return int(sum(tally.counters[names.SUCCESS.name].values()))


def memory_held(path: Path) -> int:
    with TraceReader(path) as log:
        return log.record(len(log) - 1).memory.blocks_held


def test_losing_a_sender_with_awaited_blocks_costs_a_prefill(tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    cluster = cluster_of(tiny_llama(), PLAIN, log_path=path)
    cluster.submit([ask(SHARED)])
    cluster.step()  # computes the prompt and notifies the decode instance
    cluster.lose(0)
    run(cluster)
    generated = outputs(cluster)
    cluster.close()
    # the restarted instance of the same name does not know the transfer
    assert [op.reason for op in ops_of(path) if isinstance(op, TransferFailed)] == ["unknown"]
    assert generated["request-0"] == baseline(PLAIN, [SHARED])[0] and list(check(path)) == []


def test_a_request_is_aborted_before_or_after_its_prefill(tmp_path: Path) -> None:
    for steps in range(5):
        path = tmp_path / f"{steps}.kvtrace"
        cluster = cluster_of(tiny_llama(), PLAIN, log_path=path)
        cluster.submit([ask(SHARED), ask(PROMPTS[2])])
        for _ in range(steps):
            cluster.step()
        assert cluster.abort("request-0") and not cluster.abort("request-0") and not cluster.abort("unknown")
        run(cluster)
        assert outputs(cluster)["request-1"] == baseline(PLAIN, [PROMPTS[2]])[0]
        cluster.close()
        assert list(check(path)) == [] and memory_held(path) == 0
        assert "abort" in [op.reason for op in ops_of(path) if isinstance(op, Finish)]


def test_requests_are_assigned_round_robin() -> None:
    cluster = cluster_of(tiny_llama(), PLAIN, Shape(mixed=3))
    cluster.submit([ask(prompt) for prompt in PROMPTS])
    state = cluster.log.state_now()
    cluster.close()
    assert {s.request_id: s.instance for s in state.sequences.values()} == {f"request-{i}": i % 3 for i in range(4)}


def test_checked_requests_get_unused_ids() -> None:
    """Each of two instances has accepted one request, so its own count differs from the cluster's."""
    cluster = cluster_of(tiny_llama(), PLAIN, Shape(mixed=2))
    cluster.submit([ask(PROMPTS[0]), ask(PROMPTS[1])])
    cluster.step()
    cluster.check([ask(PROMPTS[2])])
    assert [one.request_id for one in cluster.submit([ask(PROMPTS[2])])] == ["request-2"]
    run(cluster)
    cluster.close()


def test_one_invalid_prompt_refuses_the_whole_submission() -> None:
    cluster = cluster_of(tiny_llama(), PLAIN)
    with pytest.raises(RequestError):
        cluster.submit([ask(SHARED), ask([])])
    with pytest.raises(RequestError, match="in use"):
        cluster.submit([ask(SHARED, request_id="a"), ask(SHARED, request_id="a")])
    assert len(cluster.log) == 0 and not cluster.num_unfinished
    cluster.close()


@pytest.mark.parametrize(("shape", "message"), [(Shape(1, 0), "one that decodes"), (Shape(0, 1), "computes prompts")])
def test_an_unusable_cluster_is_refused(shape: Shape, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        cluster_of(tiny_llama(), PLAIN, shape)


def test_more_blocks_than_a_log_allows_are_refused() -> None:
    with pytest.raises(ConfigError, match="at most 16"):
        cluster_of(tiny_llama(), PLAIN, Shape(mixed=17))


def test_both_parts_of_a_request_have_one_transfer(tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    cluster = cluster_of(tiny_llama(), PLAIN, log_path=path)
    cluster.submit([ask(SHARED, GREEDY, request_id="mine")])
    run(cluster)
    cluster.close()
    first, second = [op for op in ops_of(path) if isinstance(op, Submit)]
    assert (first.request_id, first.kv_role) == ("mine/prefill", "kv_producer")
    assert (second.request_id, second.kv_role) == ("mine", "kv_consumer")
    assert first.transfer == second.transfer


def test_a_log_of_transfers_and_lost_instances_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    log_of_everything(tiny_llama(), path)
    assert list(check(path)) == []
    assert {type(op) for op in ops_of(path)} >= {Lost, Arrive, Send, TransferFailed}


def test_an_accepted_request_is_not_rejected_by_its_decode_instance() -> None:
    """The decode instance runs one sequence. The second request waits longer than the objective and is not rejected.
    The third one is rejected on submission.
    """
    config = EngineConfig(block_size=4, num_blocks=60, max_num_seqs=1, ttft_slo=60.0)
    cluster = cluster_of(tiny_llama(), config, Shape(prefill=1, mixed=1))
    long = ask(PROMPTS[0], SamplingParams(max_tokens=30, ignore_eos=True))
    cluster.submit([ask(PROMPTS[1])])
    run(cluster)  # measures the instances
    cluster.submit([long, ask(PROMPTS[1])])
    cluster.dispatch.router.ttft_slo = 1e-9
    with pytest.raises(RejectedError, match="but the objective is 1e-09 s"):
        cluster.submit([ask(PROMPTS[2])])
    assert cluster.num_unfinished == 2
    run(cluster)
    assert len(outputs(cluster)) == 3
    cluster.close()


def test_queued_tokens_exclude_hits_and_computed_tokens() -> None:
    """Five blocks of the prompt's 23 tokens hit on the instance that computed them."""
    cluster = cluster_of(tiny_llama(), EngineConfig(block_size=4, num_blocks=60), Shape(mixed=2))
    cluster.dispatch.router.policy = "longest_prefix"
    cluster.submit([ask(PROMPTS[0])])
    assert [one.queued_tokens for one in cluster.dispatch.candidates([0, 1])] == [len(PROMPTS[0]), 0]
    run(cluster)
    assert [one.queued_tokens for one in cluster.dispatch.candidates([0, 1])] == [0, 0]
    cluster.submit([ask(PROMPTS[0])])
    assert [one.queued_tokens for one in cluster.dispatch.candidates([0, 1])] == [23 - 20, 0]
    run(cluster)
    cluster.close()
