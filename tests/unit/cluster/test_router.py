"""Choices of each routing policy, and rejections, with their arithmetic."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from engine.cache.prefix_cache import HashChain
from engine.cluster.router import Candidate, RejectedError, Router
from engine.config import EngineConfig, RoutingPolicy
from engine.requests.load import Load
from engine.trace.operations import Admit, Allocate, Cache, Evict, Finish, Op, Preempt, Sample, Submit
from engine.trace.records import BatchEntry, BlockGroup, InstanceRole, Memory, Phase, StepRecord, Timing

SIZE, BLOCKS = 4, 100
TEXT = list(range(10, 30))  # 5 blocks, of which 4 may hit
NO_MEMORY = Memory.counted(
    num_blocks=BLOCKS,
    block_size=SIZE,
    blocks_held=0,
    blocks_cached=0,
    tokens_held=0,
    tokens_logical=0,
    kv_bytes_per_token=8,
)


class FakeInstance:
    """Instance `number` of a log, as seen by a router."""

    def __init__(self, name: str, role: InstanceRole = "mixed", number: int = 0, max_num_seqs: int = 2) -> None:
        self.name, self.role, self.number = name, role, number
        self.config = EngineConfig(block_size=SIZE, num_blocks=BLOCKS, max_num_seqs=max_num_seqs)
        first = number * BLOCKS
        self.block_groups = [BlockGroup(layers=[0], first_block=first, num_blocks=BLOCKS, kv_bytes_per_token=8)]

    def record(self, *ops: Op, batch: Sequence[BatchEntry] = (), seconds: float = 0.0) -> StepRecord:
        timing = Timing(at=0.0, forward=seconds * 0.75, sample=seconds * 0.25)
        return StepRecord(
            index=0, kind="step", step=0, ops=list(ops), batch=list(batch), timing=timing, memory=NO_MEMORY
        )

    def caches(self, token_ids: Sequence[int], salt: str | None = None) -> StepRecord:
        """Record the allocation and caching of every full block of a text."""
        chain, ops = HashChain(SIZE, salt), list[Op]()
        for logical in range(len(token_ids) // SIZE):
            block_id = self.number * BLOCKS + logical
            content = list(token_ids[logical * SIZE : (logical + 1) * SIZE])
            name, parent = chain.hash_at(logical, token_ids), chain.parent_of(logical)
            ops.append(Allocate(seq_id=0, block_id=block_id, logical=logical))
            ops.append(
                Cache(
                    seq_id=0, block_id=block_id, logical=logical, block_hash=name, parent_hash=parent, token_ids=content
                )
            )
        return self.record(*ops)


def entry(seq_id: int, phase: Phase, num_tokens: int) -> BatchEntry:
    return BatchEntry(
        seq_id=seq_id, phase=phase, start=0, token_ids=[1] * num_tokens, context_len=num_tokens, samples=True
    )


def submit(seq_id: int, max_tokens: int) -> Submit:
    return Submit(
        seq_id=seq_id,
        queue_position=0,
        request_id=f"r{seq_id}",
        prompt_token_ids=[1],
        prompt_token_bytes=[b"1"],
        max_tokens=max_tokens,
    )


def candidates(instances: Iterable[FakeInstance], **loads: Any) -> list[Candidate]:
    return [Candidate(one.name, loads.get(one.name, Load())) for one in instances]


def pair(
    policy: RoutingPolicy, role: InstanceRole = "mixed", **options: Any
) -> tuple[Router, FakeInstance, FakeInstance]:
    a, b = FakeInstance("a", role), FakeInstance("b", role, 1)
    return Router(policy, [a, b], **options), a, b


def test_round_robin_continues_when_instances_leave_and_return() -> None:
    a, b, c = (FakeInstance(name, number=number) for number, name in enumerate("abc"))
    router = Router("round_robin", [a, b, c])

    def turn(*names: FakeInstance) -> str:
        return router.choose(TEXT, None, candidates(names)).chosen.name

    assert [turn(a, b, c) for _ in range(4)] == ["a", "b", "c", "a"]
    assert turn(a, c) == "c", "without b, c was chosen before a"
    assert turn(a, b, c) == "b", "b has waited longest"
    assert [turn(b, c), turn(a), turn(b, c), turn(a)] == ["c", "a", "b", "a"], "two alternating groups"


def test_least_loaded_counts_waiting_four_times_like_vllm() -> None:
    router, a, b = pair("least_loaded")
    found = router.choose(TEXT, None, candidates([a, b], a=Load(running=5), b=Load(waiting=1)))
    assert (found.index, [one.cost for one in found.considered]) == (1, [5, 4]), "4 * waiting + running"
    assert router.choose(TEXT, None, candidates([a, b], a=Load(running=4), b=Load(waiting=1))).index == 0, "a tie"
    assert router.choose(TEXT, None, candidates([a, b], a=Load(receiving=1), b=Load(running=3))).index == 1
    queued = [Candidate("a", Load(), 9), Candidate("b", Load(), 8)]
    assert router.choose(TEXT, None, queued).index == 1, "a tie: fewer queued tokens"


def test_hits_are_weighed_against_load() -> None:
    """Given the 20 tokens, 16 hit on instance a and none on b."""
    router, a, b = pair("longest_prefix")
    router.note("a", a.caches(TEXT[:16]))
    found = router.choose(TEXT, None, candidates([a, b]))
    assert [one.num_hit_tokens for one in found.considered] == [16, 0]
    # a: (0 + 4) / 4 to compute, 4 held + 1 new; b: (0 + 20) / 4 to compute, 0 held + 5 new
    assert [one.cost for one in found.considered] == [1 + 5, 5 + 5]
    assert found.index == 0 and found.chosen.num_tokens_to_compute == 4
    busy = [Candidate("a", Load(), 8), Candidate("b", Load(), 0)]  # two queued blocks count twice: a tie
    assert [one.cost for one in router.choose(TEXT, None, busy).considered] == [10, 10]
    assert router.choose(TEXT, None, busy).index == 1, "a tie: fewer queued tokens"
    assert router.choose(TEXT, None, [Candidate("a", Load(), 12), Candidate("b", Load(), 0)]).index == 1
    router.note("a", a.record(*(Allocate(seq_id=1, block_id=50 + i, logical=i) for i in range(5))))
    assert [one.cost for one in router.choose(TEXT, None, candidates([a, b])).considered] == [1 + 10, 10]


def test_overlap_weight_scales_the_tokens_to_compute() -> None:
    """Instance a holds 5 more blocks, so its hits decide only with weight 2."""
    found = dict[float, int]()
    for weight in (0.0, 1.0, 2.0):
        router, a, b = pair("longest_prefix", overlap_weight=weight)
        router.note("a", a.caches(TEXT[:16]))
        router.note("a", a.record(*(Allocate(seq_id=1, block_id=50 + i, logical=i) for i in range(5))))
        choice = router.choose(TEXT, None, candidates([a, b]))
        assert [one.cost for one in choice.considered] == [weight * 1 + 10, weight * 5 + 5]
        found[weight] = choice.index
    assert found == {0.0: 1, 1.0: 1, 2.0: 0}


@pytest.mark.parametrize(("role", "cost"), [("prefill", [1.0, 5.0]), ("decode", [5.0, 5.0]), ("mixed", [6.0, 10.0])])
def test_routing_cost_depends_on_the_role(role: InstanceRole, cost: list[float]) -> None:
    router, a, b = pair("longest_prefix", role)
    router.note("a", a.caches(TEXT[:16]))
    found = router.choose(TEXT, None, candidates([a, b]))
    assert [one.cost for one in found.considered] == cost
    assert [one.num_tokens_to_compute for one in found.considered] == ([0, 0] if role == "decode" else [4, 20])


def test_evicted_lost_or_salted_content_is_no_hit() -> None:
    router, a, b = pair("longest_prefix")

    def hits(salt: str | None = None) -> list[int]:
        return [one.num_hit_tokens for one in router.choose(TEXT, salt, candidates([a, b])).considered]

    router.note("a", a.caches(TEXT))
    router.note("b", b.caches(TEXT, "theirs"))
    assert (hits(), hits("theirs"), hits("others")) == ([16, 0], [0, 16], [0, 0])
    chain = HashChain(SIZE, None)
    router.note("a", a.record(Evict(block_id=2, block_hash=chain.hash_at(2, TEXT))))
    assert hits() == [8, 0]
    router.instance_ended("a")
    assert hits() == [0, 0]
    router.note("a", a.caches(TEXT[:8]))
    assert hits() == [8, 0], "a restarted instance"


def record_prefill(router: Router, one: FakeInstance, prefill: tuple[int, float]) -> None:
    num_tokens, seconds = prefill
    router.note(one.name, one.record(batch=[entry(0, "prefill", num_tokens)], seconds=seconds))


def test_no_request_is_rejected_before_a_measurement() -> None:
    router, a, _ = pair("least_loaded", ttft_slo=1e-9)
    found = router.choose(TEXT, None, [Candidate("a", Load(), 10**6)])
    assert found.chosen.estimated_seconds is None
    record_prefill(router, a, (100, 0.5))
    with pytest.raises(RejectedError):
        router.choose(TEXT, None, [Candidate("a", Load(running=1))])
    router.instance_ended("a")
    assert router.choose(TEXT, None, [Candidate("a", Load(running=1))]).chosen.estimated_seconds is None


def test_an_idle_instance_rejects_no_request() -> None:
    """Otherwise no later measurement could correct a wrong estimate."""
    router, a, b = pair("longest_prefix", ttft_slo=0.25)
    record_prefill(router, a, (10, 100.0))
    record_prefill(router, b, (10, 1.0))
    busy = [Candidate("a", Load()), Candidate("b", Load(running=1))]
    found = router.choose(TEXT, None, busy)
    assert found.chosen.name == "a" and found.chosen.estimated_seconds == pytest.approx(200.0)
    for candidate in (Candidate("a", Load(), 1), Candidate("a", Load(waiting=1)), Candidate("a", Load(receiving=1))):
        with pytest.raises(RejectedError, match="20 of its own"):
            router.choose(TEXT, None, [candidate])
    for _ in range(32):
        record_prefill(router, a, (100, 0.1))
    again = router.choose(TEXT, None, [Candidate("a", Load(waiting=1), 100)]).chosen
    assert again.estimated_seconds == pytest.approx(0.12)


def test_a_late_first_token_is_rejected_with_the_estimate() -> None:
    router, a, b = pair("round_robin", "prefill", ttft_slo=0.25)
    record_prefill(router, a, (100, 0.5))
    record_prefill(router, a, (300, 0.5))  # 400 tokens in a second
    record_prefill(router, b, (200, 1.0))
    router.note("a", a.caches(TEXT[:16]))
    found = router.choose(TEXT, None, [Candidate("a", Load(), 96), Candidate("b", Load(), 30)])
    assert [one.estimated_seconds for one in found.considered] == [(96 + 4) / 400, (30 + 20) / 200]
    late = [Candidate("a", Load(), 116), Candidate("b", Load(), 60)]
    with pytest.raises(RejectedError) as refused:
        router.choose(TEXT, None, late)
    assert str(refused.value) == (
        "the first token would take about 0.3 s, but the objective is 0.25 s: 116 tokens are queued at a and 4 of its "
        "own are to be computed; send it again when the queue is shorter"
    )
    assert (refused.value.estimated_seconds, refused.value.ttft_slo) == (0.3, 0.25)
    assert router.choose(TEXT, None, [late[0], Candidate("b", Load(), 0)]).index == 1, "b is in time"
    assert router.choose(TEXT, None, late, is_accepted=True).chosen.estimated_seconds == 0.3, "not rejected later"


def test_the_estimate_includes_waiting_for_a_running_slot() -> None:
    """Both running sequences have 3 and 7 tokens left, and a step takes 20 ms. The first one ends in 60 ms."""
    a = FakeInstance("a")
    router = Router("least_loaded", [a])
    ops: list[Op] = [submit(0, 5), submit(1, 8)]
    ops += [Admit(seq_id=i, num_cached_tokens=0, resumed=False) for i in (0, 1)]
    router.note("a", a.record(*ops, batch=[entry(0, "prefill", 40), entry(1, "prefill", 60)], seconds=1.0))
    for tokens in ([0], [0, 1]):
        samples = [Sample(seq_id=i, token_id=1) for i in tokens]
        router.note("a", a.record(*samples, batch=[entry(0, "decode", 1), entry(1, "decode", 1)], seconds=0.02))

    def seconds(load: Load, queued: int = 0) -> float | None:
        return router.choose([1] * 10, None, [Candidate("a", load, queued)]).chosen.estimated_seconds

    assert seconds(Load(running=1)) == pytest.approx(0.1), "10 tokens at 100 a second"
    assert seconds(Load(running=2)) == pytest.approx(0.06 + 0.1)
    assert seconds(Load(running=2, waiting=1)) == pytest.approx(0.14 + 0.1)
    assert seconds(Load(running=2), queued=50) == pytest.approx(0.5 + 0.1), "both waits overlap"
    router.note("a", a.record(Finish(seq_id=0, reason="stop")))
    assert seconds(Load(running=2)) == pytest.approx(0.14 + 0.1), "the other sequence has 7 tokens left"
    preempted = Preempt(seq_id=1, queue_position=0, mode="recompute", for_seq_id=1, num_computed_tokens=1)
    router.note("a", a.record(preempted))
    assert seconds(Load(running=2)) == pytest.approx(0.1), "no sequence runs according to the log"


def test_the_estimate_includes_waiting_for_the_decode_instance() -> None:
    a, d = FakeInstance("a", "prefill"), FakeInstance("d", "decode", 1, max_num_seqs=1)
    router = Router("longest_prefix", [a, d], ttft_slo=0.15)
    record_prefill(router, a, (200, 1.0))
    router.note("d", d.record(submit(0, 10), Admit(seq_id=0, num_cached_tokens=0, resumed=False)))
    router.note("d", d.record(batch=[entry(0, "decode", 1)], seconds=0.02))
    free, full = Candidate("d", Load()), Candidate("d", Load(running=1))
    assert router.choose(TEXT, None, candidates([a]), [free]).chosen.estimated_seconds == 20 / 200
    with pytest.raises(RejectedError, match=r"about 0\.2 s.* no sequence can start for 0\.2 s"):
        router.choose(TEXT, None, candidates([a]), [full])
    assert router.choose(TEXT, None, [full]).chosen.estimated_seconds is None, "a decode instance computes no prompt"


def test_routing_needs_a_candidate() -> None:
    router, _, _ = pair("least_loaded")
    with pytest.raises(ValueError, match="no candidates"):
        router.choose(TEXT, None, [])
