"""Which instance takes a request.

`round_robin`     each in turn.
`least_loaded`    the smallest 4 * waiting + running, as vLLM chooses among its data-parallel engines.
`longest_prefix`  the smallest cost in blocks. An instance that computes prompts costs what it would have to compute,
                  one that generates costs what it would hold:

    prefill blocks = (tokens queued there + tokens of this prompt that do not hit) / block_size
    decode blocks  = blocks held there + prefill blocks
    cost = overlap_weight * prefill blocks + decode blocks     (role prefill: the first term; decode: the second)

That is Dynamo's formula (docs.nvidia.com/dynamo, "Router Design": overlap_score_weight * prefill_blocks +
decode_blocks), which on instances for prefill orders as Mooncake's does (Qin et al., arXiv 2407.00079, Algorithm 1: the
least queueing and prefill time); of each only the prefix-aware half: blocks are not copied between prefill instances.

Early rejection is Mooncake's too: where no instance is expected to give the first token in time, the request is refused
before anything is computed for it; never by an instance that has nothing to do. Ties go to the first instance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from engine.cache.prefix_cache import HashChain
from engine.cluster.pace import Pace
from engine.cluster.pool_view import PoolView
from engine.config import EngineConfig, RoutingPolicy
from engine.options.refusal import Refused, sentence
from engine.requests.load import Load
from engine.trace.records import BlockGroup, InstanceRole, StepRecord

WAITING_WEIGHT = 4  # vllm/v1/engine/core_client.py


class RejectedError(Refused):
    """No instance is expected to give the first token in time. Nothing has changed; the message has the numbers."""

    def __init__(self, best: Considered, ttft_slo: float) -> None:
        assert best.estimated_seconds is not None
        place = sentence("rejected.place", seconds=best.place_seconds) if best.place_seconds else ""
        super().__init__(
            sentence(
                "rejected",
                seconds=best.estimated_seconds,
                slo=ttft_slo,
                queued=best.queued_tokens,
                name=best.name,
                own=best.num_tokens_to_compute,
                place=place,
            )
        )
        self.estimated_seconds = best.estimated_seconds
        self.ttft_slo = ttft_slo


class Candidate(NamedTuple):
    """An instance that could take the request, as things stand."""

    name: str
    load: Load
    queued_tokens: int = 0  # prompt tokens that were routed to it and are not computed yet


class Considered(NamedTuple):
    """Routing figures of a candidate."""

    name: str
    num_hit_tokens: int
    num_tokens_to_compute: int  # of this prompt; 0 on an instance that receives them
    queued_tokens: int
    cost: float  # the smallest is chosen; its unit is the policy's
    place_seconds: float  # until it could run, there or at its decode instance; 0: at once, or unknown
    estimated_seconds: float | None  # to the first token; None: nothing is measured yet, or another instance says it


@dataclass(frozen=True, slots=True)
class RoutingDecision:
    """Routing decision and its reasons."""

    index: int  # of the candidate
    policy: RoutingPolicy
    considered: list[Considered]  # of each candidate, in their order

    @property
    def chosen(self) -> Considered:
        return self.considered[self.index]


class RoutedInstance(Protocol):
    """Instance facts for the router; `engine.cluster.instance.Instance` provides them."""

    @property
    def name(self) -> str: ...
    @property
    def role(self) -> InstanceRole: ...
    @property
    def config(self) -> EngineConfig: ...
    @property
    def block_groups(self) -> list[BlockGroup]: ...


class _Known:
    """Router's state of an instance: its description, and what its records added."""

    def __init__(self, instance: RoutedInstance) -> None:
        self.role, self.config = instance.role, instance.config
        self.num_groups = len(instance.block_groups)
        self.pool = PoolView(instance.block_groups, instance.config.block_size)
        self.pace = Pace()
        self.chosen_at = -1  # the number of the choice that it won last

    def seconds_until_a_place(self, load: Load) -> float:
        ahead = load.running + load.waiting + load.receiving
        return self.pace.seconds_until_a_place(ahead, self.config.max_num_seqs)


class Router:
    """Router by the common log alone: instances are not queried. Equal inputs give equal choices."""

    def __init__(
        self,
        policy: RoutingPolicy,
        instances: Iterable[RoutedInstance],
        *,
        ttft_slo: float | None = None,
        overlap_weight: float = 1.0,
    ) -> None:
        """Set up the router. `ttft_slo`: seconds; None: no request is rejected. `overlap_weight`: weight of a block to
        compute
        against one to hold; 0 ignores hits, except for the blocks that they save.
        """
        self.policy: RoutingPolicy = policy
        self.ttft_slo = ttft_slo
        self._overlap_weight = overlap_weight
        self._known = {instance.name: _Known(instance) for instance in instances}
        self._num_choices = 0

    def note(self, instance: str, record: StepRecord) -> None:
        """Take in the instance's next record of the common log."""
        known = self._known[instance]
        known.pool.note(record.ops)
        known.pace.note(record)

    def gone(self, instance: str) -> None:
        """The instance has ended; if it comes back it has an empty cache, and its speed is not known."""
        self._known[instance].pool.clear()
        self._known[instance].pace.clear()

    def choose(
        self,
        prompt_token_ids: Sequence[int],
        cache_salt: str | None,
        candidates: Sequence[Candidate],
        decoders: Sequence[Candidate] = (),
        is_accepted: bool = False,
    ) -> RoutingDecision:
        """Choose the instance for a prompt. `decoders`: candidates for its decode, where that is another instance.
        `is_accepted`: it was accepted before, and is not rejected any more.

        Raises:
            RejectedError: `ttft_slo` cannot be met, by what is known.
            ValueError: there is no candidate.
        """
        if not candidates:
            raise ValueError("there is no instance for it")
        waits = [self._known[decoder.name].seconds_until_a_place(decoder.load) for decoder in decoders]
        then = min(waits, default=0.0)
        chains: dict[int, HashChain] = {}  # by block size
        considered = list[Considered]()
        for candidate in candidates:
            size = self._known[candidate.name].config.block_size
            chain = chains.setdefault(size, HashChain(size, cache_salt))
            considered.append(self._consider(candidate, prompt_token_ids, chain, then))
        indices = list(range(len(candidates))) if is_accepted else self._in_time(candidates, considered)
        index = min(indices, key=lambda i: (considered[i].cost, considered[i].queued_tokens, i))
        self._num_choices += 1
        self._known[candidates[index].name].chosen_at = self._num_choices
        return RoutingDecision(index, self.policy, considered)

    def _consider(
        self, candidate: Candidate, token_ids: Sequence[int], chain: HashChain, seconds_then: float
    ) -> Considered:
        known = self._known[candidate.name]
        num_hits = known.pool.num_hit_tokens(token_ids, chain)
        own = len(token_ids) - num_hits
        if self.policy == "round_robin":
            cost = float(known.chosen_at)
        elif self.policy == "least_loaded":
            load = candidate.load
            cost = float(WAITING_WEIGHT * (load.waiting + load.receiving) + load.running)
        else:
            cost = self._cost(known, candidate.queued_tokens + own)
        here = 0.0 if known.role == "prefill" else known.seconds_until_a_place(candidate.load)
        return Considered(
            name=candidate.name,
            num_hit_tokens=num_hits,
            num_tokens_to_compute=0 if known.role == "decode" else own,
            queued_tokens=candidate.queued_tokens,
            cost=cost,
            place_seconds=max(here, seconds_then),
            estimated_seconds=_estimate(known, candidate.queued_tokens, own, here, seconds_then),
        )

    def _cost(self, known: _Known, num_tokens: int) -> float:
        prefill_blocks = num_tokens / known.config.block_size
        decode_blocks = known.pool.num_held / known.num_groups + prefill_blocks
        if known.role == "prefill":
            return prefill_blocks
        if known.role == "decode":
            return decode_blocks
        return self._overlap_weight * prefill_blocks + decode_blocks

    def _in_time(self, candidates: Sequence[Candidate], considered: Sequence[Considered]) -> list[int]:
        """Return those that may meet the objective. One that has nothing to do may, whatever it took before: else a
        speed that was measured once in a bad moment would refuse everybody for ever. Raises RejectedError when that
        is none.
        """
        slo, found = self.ttft_slo, list[int]()
        for index, (candidate, one) in enumerate(zip(candidates, considered, strict=True)):
            seconds, load = one.estimated_seconds, candidate.load
            is_idle = not (candidate.queued_tokens or load.running or load.waiting or load.receiving)
            if slo is None or seconds is None or seconds <= slo or (is_idle and seconds > one.place_seconds):
                found.append(index)
        if slo is not None and not found:
            raise RejectedError(min(considered, key=lambda one: one.estimated_seconds or 0.0), slo)
        return found


def _estimate(known: _Known, queued: int, own: int, seconds_here: float, seconds_then: float) -> float | None:
    """To the first token. A prompt waits for the tokens before it and for a place at the same time."""
    speed = known.pace.prefill_tokens_per_second
    if known.role == "decode" or speed is None:
        return None
    return max(max(seconds_here, queued / speed) + own / speed, seconds_then)
