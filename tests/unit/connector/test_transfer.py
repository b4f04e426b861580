"""Prefill on one engine and decode on another: tokens equal those of one engine, and no block leaks or is mixed up."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.connector.link import LocalLink, TransferError
from engine.model.loader import from_module
from engine.trace.check import check
from engine.trace.operations import (
    Admit,
    Allocate,
    Arrive,
    Await,
    Defer,
    Expire,
    Finish,
    Free,
    Hold,
    Receive,
    Send,
    TransferFailed,
)
from tests.tiny_models import FAMILIES, tiny_model, tiny_tokenizer
from tests.unit.connector.pair import (
    GREEDY,
    PLAIN,
    PROMPTS,
    SETTINGS,
    SHARED,
    Pair,
    baseline,
    both_logs,
    check_that_no_wrong_reference_is_read,
    of,
)
from tests.unit.engine.runs import tiny_llama


@pytest.mark.parametrize("name", SETTINGS)
def test_transfers_give_the_tokens_of_one_engine(name: str) -> None:
    config = SETTINGS[name]
    pair = Pair(tiny_llama(), config)
    requests = [pair.pass_on(prompt) for prompt in PROMPTS]
    pair.run()
    assert [request.output_token_ids for request in requests] == baseline(config, PROMPTS)
    assert pair.held() == (0, 0)
    sent, arrived = of(Send, pair.ops["prefill"]), of(Arrive, pair.ops["decode"])
    assert len(sent) == len(of(Hold, pair.ops["prefill"])) == len(PROMPTS)
    assert {(op.transfer, op.num_bytes) for op in sent if op.num_bytes} == {
        (op.transfer, op.num_bytes) for op in arrived
    }
    assert sum(op.num_bytes for op in arrived) == sum(op.num_bytes for op in of(Receive, pair.ops["decode"])) > 0
    for op in sent:  # the sender holds its blocks until the receiver confirms them
        earlier = pair.both[: pair.both.index(op)]
        assert not op.num_bytes or op.transfer in [one.transfer for one in of(Arrive, earlier)]
    awaited = {op.seq_id: (op.num_cached_tokens, op.num_tokens) for op in of(Await, pair.ops["decode"])}
    assert all(
        sum(awaited[r.seq_id]) == len(p) - 1 for r, p in zip(requests, PROMPTS, strict=True) if r.seq_id in awaited
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_transfers_work_for_every_model_family(family: str) -> None:
    model = from_module(tiny_model(family), tiny_tokenizer(), family)
    config = EngineConfig(block_size=2, num_blocks=64)
    pair = Pair(model, config)
    requests = [pair.pass_on(prompt) for prompt in PROMPTS]
    pair.run()
    assert [request.output_token_ids for request in requests] == baseline(config, PROMPTS, model)
    assert of(Receive, pair.ops["decode"]) and pair.held() == (0, 0)


def test_only_blocks_that_the_receiver_lacks_are_transferred() -> None:
    """The second prompt shares 21 tokens with the first. Its 5 cached blocks of 4 are not transferred, 2 others are."""
    pair = Pair(tiny_llama(), PLAIN)
    for prompt in PROMPTS[:2]:
        pair.pass_on(prompt)
        pair.run()
    first, second = of(Await, pair.ops["decode"])
    assert (first.num_cached_tokens, first.num_tokens) == (0, 22)
    assert (second.num_cached_tokens, second.num_tokens) == (20, 5)
    assert [len(op.block_ids) for op in of(Send, pair.ops["prefill"])] == [6, 2]


def test_a_fully_cached_prompt_transfers_nothing() -> None:
    """At most 20 of 21 tokens can be transferred, and the receiver has cached their 5 blocks of 4."""
    pair = Pair(tiny_llama(), PLAIN)
    for _ in range(2):
        request = pair.pass_on(SHARED)
        pair.run()
    assert [op.num_bytes for op in of(Send, pair.ops["prefill"])][1] == 0
    assert len(of(Await, pair.ops["decode"])) == 1
    assert request.output_token_ids == baseline(PLAIN, [SHARED])[0] and pair.held() == (0, 0)


def test_a_full_receiver_leaves_blocks_at_the_sender() -> None:
    """The receiver uses 8 of 11 blocks. A prompt of 23 tokens needs 6 and waits until they are free."""
    tight = SETTINGS["tight"]
    pair = Pair(tiny_llama(), PLAIN, tight)
    busy = pair.decode.add_request(list(range(70, 98)), GREEDY)
    pair.turn(pair.decode)
    remote = pair.offer(PROMPTS[0])
    late = pair.receive(remote, PROMPTS[0])
    pair.turn(pair.decode)
    assert pair.held()[0] == 6 and not of(Await, pair.ops["decode"])
    pair.run()
    assert [busy.output_token_ids, late.output_token_ids] == baseline(tight, [list(range(70, 98)), PROMPTS[0]])
    assert len(of(Await, pair.ops["decode"])) == 1 and pair.held() == (0, 0)


def test_received_sequences_do_not_deadlock() -> None:
    """Two received prompts hold 4 blocks each in a pool of 9, and each needs more than the remaining one."""
    config = EngineConfig(block_size=4, num_blocks=9, max_model_len=36)
    prompts = [[i + j for j in range(16)] for i in (10, 40)]
    pair = Pair(tiny_llama(), PLAIN, config)
    sampling = SamplingParams(max_tokens=18, ignore_eos=True)
    requests = [pair.pass_on(prompt, sampling) for prompt in prompts]
    pair.run()
    assert all(len(request.output_token_ids) == 18 for request in requests) and pair.held() == (0, 0)


class FaultyLink(LocalLink):
    """Link that calls `fault` at the first connection."""

    def __init__(self, senders: Any, fault: Any) -> None:
        super().__init__(senders)
        self._fault = fault

    def to(self, engine_id: str) -> Any:
        fault, self._fault = self._fault, None
        if fault is not None:
            fault()
        return super().to(engine_id)


def lose() -> None:
    raise TransferError("lost", "the cable was pulled")


def test_a_lost_link_falls_back_to_computing() -> None:
    pair = Pair(tiny_llama(), PLAIN, link=lambda senders: FaultyLink(senders, lose))
    requests = [pair.pass_on(prompt) for prompt in PROMPTS]
    pair.run()
    assert [request.output_token_ids for request in requests] == baseline(PLAIN, PROMPTS)
    (failed,) = of(TransferFailed, pair.ops["decode"])
    assert (failed.seq_id, failed.reason, failed.detail) == (0, "lost", "the cable was pulled")
    reasons = [op.reason for op in of(Free, pair.ops["decode"]) if op.seq_id == 0]
    assert reasons[:6] == ["transfer_failed"] * 6
    assert pair.held() == (6, 0), "the sender holds the blocks until its lease ends"


def test_a_failed_load_aborts_the_request_under_policy_fail() -> None:
    pair = Pair(tiny_llama(), PLAIN, link=lambda senders: FaultyLink(senders, lose), policy="fail")
    requests = [pair.pass_on(prompt) for prompt in PROMPTS[:2]]
    pair.run()
    assert requests[0].finish_reason == "abort" and requests[0].output_token_ids == []
    (ended,) = [op for op in of(Finish, pair.ops["decode"]) if op.reason == "abort"]
    assert ended.detail == "its keys and values did not arrive: lost: the cable was pulled"
    assert requests[1].output_token_ids == baseline(PLAIN, PROMPTS[:2])[1] and pair.held()[1] == 0


def test_expired_leases_free_their_blocks() -> None:
    now = [0.0]
    pair = Pair(tiny_llama(), PLAIN, lease=5.0, clock=lambda: now[0])
    remote = pair.offer(PROMPTS[0])
    assert pair.held() == (6, 0)
    now[0] = 4.0
    pair.producer.renew(remote.transfer)
    now[0] = 8.0
    pair.run()
    assert pair.held() == (6, 0)
    now[0] = 9.5
    pair.run()
    assert pair.held() == (0, 0) and [op.seq_id for op in of(Expire, pair.ops["prefill"])] == [0]
    request = pair.receive(remote, PROMPTS[0])
    pair.run()
    assert [op.reason for op in of(TransferFailed, pair.ops["decode"])] == ["expired"]
    assert request.output_token_ids == baseline(PLAIN, PROMPTS)[0]


def test_invalid_references_are_never_read() -> None:
    """The blocks of the sender have new owners when the invalid references are used."""
    pair = Pair(tiny_llama(), EngineConfig(block_size=4, num_blocks=8, max_model_len=32), PLAIN)
    check_that_no_wrong_reference_is_read(pair)


@pytest.mark.parametrize(
    "change",
    [
        lambda remote: remote._replace(block_tables=[]),
        lambda remote: remote._replace(block_tables=[[0, 1]]),
        lambda remote: remote._replace(block_tables=[[*remote.block_tables[0][:3], -1, *remote.block_tables[0][4:]]]),
    ],
)
def test_a_sender_that_omits_blocks_is_not_trusted(change: Any) -> None:
    pair = Pair(tiny_llama(), PLAIN)
    remote = pair.offer(PROMPTS[0])
    request = pair.receive(change(remote), PROMPTS[0])
    pair.run()
    assert [op.reason for op in of(TransferFailed, pair.ops["decode"])] == ["out_of_range"]
    assert request.output_token_ids == baseline(PLAIN, [PROMPTS[0]])[0]


@pytest.mark.parametrize(
    ("prompt", "salt"), [([33, *PROMPTS[0][1:]], None), ([*PROMPTS[0][:-1], 99], None), (PROMPTS[0], "a")]
)
def test_blocks_of_another_text_or_salt_are_not_used(prompt: list[int], salt: str | None) -> None:
    pair = Pair(tiny_llama(), PLAIN)
    remote = pair.offer(PROMPTS[0])
    request = pair.receive(remote, prompt, cache_salt=salt)
    pair.run()
    assert [op.reason for op in of(TransferFailed, pair.ops["decode"])] == ["other_text"]
    assert request.output_token_ids == baseline(PLAIN, [prompt])[0]


def test_an_unexpected_link_error_fails_one_transfer() -> None:
    def fail() -> None:
        raise OSError("no route")

    pair = Pair(tiny_llama(), PLAIN, link=lambda senders: FaultyLink(senders, fail))
    requests = [pair.pass_on(prompt) for prompt in PROMPTS[:2]]
    pair.run()
    assert [request.output_token_ids for request in requests] == baseline(PLAIN, PROMPTS[:2])
    assert [(op.reason, op.detail) for op in of(TransferFailed, pair.ops["decode"])] == [("lost", "OSError: no route")]


class StalledExecutor:
    """Executor of pulls that never complete."""

    def submit(self, do: Any, *arguments: Any) -> Any:
        return Future()


def test_waiting_for_blocks_ends_with_their_lease() -> None:
    now = [0.0]
    pair = Pair(tiny_llama(), PLAIN, lease=5.0, clock=lambda: now[0], pulls=StalledExecutor())
    request = pair.pass_on(PROMPTS[0])
    pair.run()
    assert pair.decode.snapshot().receiving == [request.seq_id] and not pair.decode.can_step
    now[0] = 5.5
    pair.run()
    assert [op.reason for op in of(TransferFailed, pair.ops["decode"])] == ["late"]
    assert request.output_token_ids == baseline(PLAIN, [PROMPTS[0]])[0] and pair.held() == (0, 0)


def test_a_full_prefill_engine_waits_until_held_blocks_are_fetched() -> None:
    """A finished prompt holds 6 of 8 blocks for another instance. The next prompt needs 6, and its deferral is recorded
    once.
    """
    pair = Pair(tiny_llama(), EngineConfig(block_size=4, num_blocks=8, max_model_len=32), PLAIN)
    remote = pair.offer(PROMPTS[0])
    other = pair.prefill.add_request([90 + i for i in range(23)], GREEDY)
    pair.run()
    assert len(of(Defer, pair.ops["prefill"])) == 1 and other.output_token_ids == []
    pair.receive(remote, PROMPTS[0])
    pair.run()
    assert len(other.output_token_ids) == 9 and pair.held() == (0, 0)


def test_the_blocks_of_an_aborted_prefill_are_not_held() -> None:
    pair = Pair(tiny_llama(), PLAIN)
    for _ in range(2):  # the name is free again after an abort
        pair.prefill.add_request(PROMPTS[0], GREEDY, "t0", transfer="t0", kv_role="kv_producer")
        pair._check(pair.prefill, "prefill", pair.prefill.step())
        assert pair.prefill.abort("t0")
        assert pair.producer.take_offer("t0") is None and pair.held() == (0, 0)


def test_only_paged_engines_exchange_blocks() -> None:
    for config in (EngineConfig(strategy="first_fit"), EngineConfig(strategy="concat"), EngineConfig(strategy="none")):
        with pytest.raises(ConfigError, match="strategy paged"):
            Pair(tiny_llama(), config)


def test_an_aborted_transfer_frees_the_blocks_of_both_engines() -> None:
    """Requests are aborted before, during and after the transfer."""
    pair = Pair(tiny_llama(), PLAIN)
    remote = pair.offer(PROMPTS[0])
    request = pair.receive(remote, PROMPTS[0])
    assert pair.decode.abort(request.request_id)
    pair.run()
    assert pair.held() == (0, 0), "the sender is notified"
    request = pair.pass_on(PROMPTS[0])
    pair._check(pair.decode, "decode", pair.decode.step())
    assert pair.decode.snapshot().receiving == [request.seq_id]
    assert pair.decode.abort(request.request_id)
    pair.run()
    assert pair.held() == (0, 0)
    request = pair.pass_on(PROMPTS[1])
    pair._check(pair.decode, "decode", pair.decode.step())
    pair._check(pair.decode, "decode", pair.decode.take_transfers())
    assert pair.decode.snapshot().waiting == [request.seq_id] and pair.held()[1] > 0
    assert pair.decode.abort(request.request_id)
    pair.run()
    assert pair.held() == (0, 0)


def test_receive_operations_name_the_senders_blocks() -> None:
    pair = Pair(tiny_llama(), PLAIN)
    remote = pair.offer(PROMPTS[0])
    pair.receive(remote, PROMPTS[0])
    pair.run()
    ops = pair.ops["decode"]
    received = of(Receive, ops)
    assert [op.from_block_id for op in received] == remote.block_tables[0]
    assert [op.num_tokens for op in received] == [4, 4, 4, 4, 4, 2]  # the last of 23 tokens is computed
    assert [op.block_id for op in of(Allocate, ops) if op.reason == "receive"] == [op.block_id for op in received]
    (admit,) = of(Admit, ops)
    assert (admit.num_cached_tokens, admit.num_external_tokens) == (0, 22)
    arrive = of(Arrive, ops)[0]
    assert arrive.link == "local" and 0 <= arrive.began <= arrive.ended


def test_the_logs_of_both_engines_are_valid(tmp_path: Path) -> None:
    for path in both_logs(tiny_llama(), tmp_path):
        assert [str(finding) for finding in check(path)] == []
