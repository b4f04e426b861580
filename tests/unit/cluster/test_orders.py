"""The common log of several instances is valid for every order of messages and every moment of a loss."""

from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.config import EngineConfig, SamplingParams
from engine.trace.check import check
from engine.trace.operations import Arrive, Hold, Lost, Op, Send
from tests.unit.cluster.clusters import ask, outputs
from tests.unit.cluster.staged import StagedCluster
from tests.unit.connector.pair import PROMPTS, baseline
from tests.unit.engine.runs import tiny_llama

PLAIN = EngineConfig(block_size=4, num_blocks=40)
SHORT = SamplingParams(max_tokens=3, ignore_eos=True)
LEASE = 0.05  # seconds
CONFIG = replace(PLAIN, prefill=1, decode=2, routing_policy="round_robin")


@cache
def expected() -> list[list[int]]:
    return baseline(PLAIN, PROMPTS)


def stage(path: Path) -> StagedCluster:
    return StagedCluster(tiny_llama(), CONFIG, log_path=path, lease=LEASE)


def indices(staged: StagedCluster) -> tuple[int, list[int]]:
    """Return the index of the prefill instance and those of the decode instances."""
    roles = [staged[index].role for index in range(len(staged))]
    return roles.index("prefill"), [index for index, role in enumerate(roles) if role == "decode"]


def work(staged: StagedCluster, index: int) -> None:
    """Take one turn and deliver its records."""
    staged[index].work()
    while staged[index].num_undelivered:
        staged.deliver(index)


def finish(staged: StagedCluster, most: int = 2000) -> None:
    for _ in range(most):
        if not staged.cluster.num_unfinished:
            return
        for index in range(len(staged)):
            while staged[index].num_pulls:
                staged[index].pull()
            if staged[index].is_busy or staged[index].num_undelivered:
                work(staged, index)
            staged.cluster.step(0.0)
        staged.wait(LEASE / 10)
    raise AssertionError(f"{staged.cluster.num_unfinished} requests are unfinished")


def check_valid(staged: StagedCluster, path: Path) -> None:
    """Check that every finished request has the tokens of one engine, and that the log is valid."""
    finish(staged)
    state, generated = staged.cluster.log.state_now(), outputs(staged.cluster)
    staged.cluster.close()
    assert [str(finding) for finding in check(path)] == []
    for number, tokens in enumerate(expected()):
        decoded = [s for s in state.sequences.values() if s.request_id == f"request-{number}"]
        tokens = tokens[: max((s.max_tokens for s in decoded), default=0)]
        found = generated.get(f"request-{number}", [])
        assert found == (tokens if {s.finish_reason for s in decoded} == {"length"} else tokens[: len(found)])


def hold_and_await(staged: StagedCluster, prefill: int, decode: int) -> None:
    """Compute the first prompt and run the receiver until its read is pending."""
    staged.cluster.send([ask(PROMPTS[0])])
    work(staged, prefill)
    while not staged[decode].num_pulls:
        work(staged, decode)


def test_a_sender_that_ends_early_fails_the_transfer(tmp_path: Path) -> None:
    """Blocks that were read before the sender's end are valid, even if the receiver checks the clock later."""
    path = tmp_path / "run.kvtrace"
    staged = stage(path)
    prefill, decode = indices(staged)
    hold_and_await(staged, prefill, decode[0])
    staged.after_the_next_read(lambda: staged.lose(prefill))
    staged[decode[0]].pull()
    finish(staged)
    assert [type(op) for op in ops_of(staged) if isinstance(op, Hold | Lost | Arrive)] == [Hold, Lost, Arrive]
    check_valid(staged, path)


def test_a_receipt_is_logged_after_its_hold(tmp_path: Path) -> None:
    """The sender records one transfer as received, then holds another one. The record of the first receiver is
    delivered last. Until then the log defers the sender's later records and the receipt that follows from them.
    """
    path = tmp_path / "run.kvtrace"
    staged = stage(path)
    prefill, (near, far) = indices(staged)
    hold_and_await(staged, prefill, near)
    staged[near].pull()
    staged[near].work()  # has received and confirmed to the sender, before the cluster processes its record
    staged.cluster.send([ask(PROMPTS[1])])
    for _ in range(3):
        work(staged, prefill)
    while not staged[far].num_pulls:
        work(staged, far)
    staged[far].pull()
    work(staged, far)
    while staged[near].num_undelivered:
        staged.deliver(near)
    finish(staged)
    transfers = [(type(op), op.transfer) for op in ops_of(staged) if isinstance(op, Hold | Arrive | Send)]
    first, second = (transfer for kind, transfer in transfers if kind is Hold)
    assert transfers[:4] == [(Hold, first), (Arrive, first), (Send, first), (Hold, second)]
    assert transfers.index((Hold, second)) < transfers.index((Arrive, second))
    check_valid(staged, path)


def test_lost_last_messages_of_a_receiver_block_no_other_instance(tmp_path: Path) -> None:
    """An actor reports at the end of a call. If it is killed before, it has already confirmed to the sender."""
    path = tmp_path / "run.kvtrace"
    staged = stage(path)
    prefill, (near, _) = indices(staged)
    hold_and_await(staged, prefill, near)
    staged[near].pull()
    staged[near].work()
    work(staged, prefill)
    assert not [op for op in ops_of(staged) if isinstance(op, Send)], "the receiver's message may still arrive"
    staged[near].delivers_last_messages = False
    staged.lose(near)
    assert [type(op) for op in ops_of(staged) if isinstance(op, Arrive | Lost | Send)] == [Lost, Send]
    check_valid(staged, path)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_an_instance_killed_at_any_moment_leaves_a_valid_log(victim: int, tmp_path: Path) -> None:
    """The victim is killed at each moment of a run."""
    num_moments = 0
    for moment in range(200):
        path = tmp_path / f"{moment}.kvtrace"
        staged = stage(path)
        staged.cluster.send([ask(prompt, SHORT) for prompt in PROMPTS[:2]])
        left, killed = moment, False
        for _ in range(200):
            for index in range(len(staged)):
                for act in ("work", "pull", "deliver"):
                    one = staged[index]
                    if left == 0 and not killed:
                        staged.lose(victim)
                        killed = True
                        break
                    if act == "work" and one.is_busy:
                        one.work()
                    elif act == "pull" and one.num_pulls:
                        one.pull()
                    elif act == "deliver" and one.num_undelivered:
                        staged.deliver(index)
                    else:
                        continue
                    left -= 1
            if killed or not staged.cluster.num_unfinished:
                break
        check_valid(staged, path)
        num_moments += 1
        if not killed:
            break
    assert 20 < num_moments < 200


def ops_of(staged: StagedCluster) -> list[Op]:
    log = staged.cluster.log
    return [op for index in range(len(log)) for op in log.record(index).ops]
