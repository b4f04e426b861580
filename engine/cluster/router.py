"""Routing of requests to instances.

`round_robin`     each in turn.
`least_loaded`    the smallest 4 * waiting + running, as vLLM chooses among its data-parallel engines.
`longest_prefix`  the smallest cost in blocks. Prefill instances cost the blocks that they would have to compute,
                  decode instances the blocks that they would hold:

    prefill blocks = (tokens queued there + tokens of this prompt that do not hit) / block_size
    decode blocks  = blocks held there + prefill blocks
    cost = overlap_weight * prefill blocks + decode blocks     (role prefill: the first term; decode: the second)

That is Dynamo's formula (docs.nvidia.com/dynamo, "Router Design": overlap_score_weight * prefill_blocks +
decode_blocks). On prefill instances it gives the order of Mooncake's Algorithm 1 (Qin et al., arXiv 2407.00079: the
least queueing and prefill time). Only the prefix-aware half of each is implemented: blocks are not copied between
prefill instances.

Early rejection is Mooncake's too: a request is refused before its prefill if no instance is expected to return its
first token in time. Idle instances never reject. Ties go to the first instance.
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
    """No instance is expected to return the first token in time. The message has the numbers."""

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
    """Instance that could serve the request, with its current load."""

    name: str
    load: Load
    queued_tokens: int = 0  # prompt tokens routed to it and not computed yet


class Considered(NamedTuple):
    """Routing figures of a candidate."""

    name: str
    num_hit_tokens: int
    num_tokens_to_compute: int  # of this prompt; 0 if the instance receives them
    queued_tokens: int
    cost: float  # the smallest is chosen; its unit is the policy's
    place_seconds: float  # until it can run, here and at its decode instance; 0: at once, or unknown
    estimated_seconds: float | None  # to the first token; None: not measured yet, or a decode instance


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
    """State of an instance in the router, updated by its records."""

    def __init__(self, instance: RoutedInstance) -> None:
        self.role, self.config = instance.role, instance.config
        self.num_groups = len(instance.block_groups)
        self.pool = PoolView(instance.block_groups, instance.config.block_size)
        self.pace = Pace()
        self.chosen_at = -1  # number of the last decision for it

    def seconds_until_a_place(self, load: Load) -> float:
        ahead = load.running + load.waiting + load.receiving
        return self.pace.seconds_until_a_place(ahead, self.config.max_num_seqs)


class Router:
    """Router that reads only the common log. Equal inputs give equal decisions."""

    def __init__(
        self,
        policy: RoutingPolicy,
        instances: Iterable[RoutedInstance],
        *,
        ttft_slo: float | None = None,
        overlap_weight: float = 1.0,
    ) -> None:
        """Set up the router.

        `ttft_slo`: seconds; None: no request is rejected. `overlap_weight`: weight of a block to compute relative to a
        block to hold; 0 ignores hits, except for the blocks that they save.
        """
        self.policy: RoutingPolicy = policy
        self.ttft_slo = ttft_slo
        self._overlap_weight = overlap_weight
        self._known = {instance.name: _Known(instance) for instance in instances}
        self._num_choices = 0

    def note(self, instance: str, record: StepRecord) -> None:
        """Process the next record of an instance."""
        known = self._known[instance]
        known.pool.note(record.ops)
        known.pace.note(record)

    def gone(self, instance: str) -> None:
        """Reset the state of an instance that has ended."""
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
        """Choose the instance for a prompt.

        `decoders`: candidates for its decode, if that is on another instance. `is_accepted`: the request was accepted
        before, and is not rejected.

        Raises:
            RejectedError: no candidate is expected to meet `ttft_slo`.
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
        """Return the indices of the candidates that may meet the objective. Raises RejectedError if there are none.

        An idle candidate is always among them: otherwise one slow measurement would reject all later requests.
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
    """Return the seconds to the first token. A prompt waits for queued tokens and for a place at the same time."""
    speed = known.pace.prefill_tokens_per_second
    if known.role == "decode" or speed is None:
        return None
    return max(max(seconds_here, queued / speed) + own / speed, seconds_then)
