"""Routing of requests to instances. Each policy chooses the instance of the lowest cost.

`round_robin`     number of its last choice, so the instances take turns.
`least_loaded`    4 * waiting + running, as vLLM chooses among its data-parallel engines.
`longest_prefix`  a number of blocks: on prefill instances the blocks to compute, on decode instances the blocks that
                  would be held.

    prefill blocks = (queued tokens + tokens of this prompt that do not hit) / block_size
    decode blocks  = held blocks + prefill blocks
    cost = overlap_weight * prefill blocks + decode blocks     (prefill: prefill blocks; decode: decode blocks)

This is Dynamo's formula (docs.nvidia.com/dynamo, "Router Design": overlap_score_weight * prefill_blocks +
decode_blocks). On prefill instances it ranks like Mooncake's Algorithm 1 (Qin et al., arXiv 2407.00079), which
minimizes the queueing and prefill time. Unlike in both systems, blocks are not copied between prefill instances.

Early rejection is also from Mooncake: a request is refused before its prefill if no instance is expected to return its
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
    """No instance is expected to return the first token in time."""

    def __init__(self, best: Considered, ttft_slo: float) -> None:
        assert best.estimated_seconds is not None
        slot = sentence("rejected.place", seconds=best.slot_seconds) if best.slot_seconds else ""
        super().__init__(
            sentence(
                "rejected",
                seconds=best.estimated_seconds,
                slo=ttft_slo,
                queued=best.queued_tokens,
                name=best.name,
                own=best.num_tokens_to_compute,
                place=slot,
            )
        )
        self.estimated_seconds = best.estimated_seconds
        self.ttft_slo = ttft_slo


class Candidate(NamedTuple):
    """Instance that could serve the request, with its current load."""

    name: str
    load: Load
    queued_tokens: int = 0  # routed prompt tokens that are not computed yet


class Considered(NamedTuple):
    """Routing figures of a candidate."""

    name: str
    num_hit_tokens: int
    num_tokens_to_compute: int  # of this prompt; 0 on a decode instance, which receives the blocks
    queued_tokens: int
    cost: float  # the lowest is chosen; the unit depends on the policy
    slot_seconds: float  # until the request can run here and on its decode instance; 0: at once, or unknown
    estimated_seconds: float | None  # to the first token; None: not measured yet, or a decode instance


@dataclass(frozen=True, slots=True)
class RoutingDecision:
    """Routing decision and its reasons."""

    index: int  # of the candidate
    policy: RoutingPolicy
    considered: list[Considered]  # in the order of the candidates

    @property
    def chosen(self) -> Considered:
        return self.considered[self.index]


class RoutedInstance(Protocol):
    """The part of an instance's interface that the router uses."""

    @property
    def name(self) -> str: ...
    @property
    def role(self) -> InstanceRole: ...
    @property
    def config(self) -> EngineConfig: ...
    @property
    def block_groups(self) -> list[BlockGroup]: ...


class _InstanceState:
    """State of an instance, updated by its records."""

    def __init__(self, instance: RoutedInstance) -> None:
        self.role, self.config = instance.role, instance.config
        self.num_groups = len(instance.block_groups)
        self.pool = PoolView(instance.block_groups, instance.config.block_size)
        self.pace = Pace()
        self.chosen_at = -1  # number of the last decision that chose it

    def seconds_until_slot(self, load: Load) -> float:
        num_before = load.running + load.waiting + load.receiving
        return self.pace.seconds_until_slot(num_before, self.config.max_num_seqs)


class Router:
    """Router that uses only the merged log. Equal inputs give equal decisions."""

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
        block to hold; with 0, hits only reduce the decode blocks.
        """
        self.policy: RoutingPolicy = policy
        self.ttft_slo = ttft_slo
        self._overlap_weight = overlap_weight
        self._states = {instance.name: _InstanceState(instance) for instance in instances}
        self._num_choices = 0

    def note(self, instance: str, record: StepRecord) -> None:
        state = self._states[instance]
        state.pool.note(record.ops)
        state.pace.note(record)

    def instance_ended(self, instance: str) -> None:
        """Reset the state of an instance that has ended."""
        self._states[instance].pool.clear()
        self._states[instance].pace.clear()

    def choose(
        self,
        prompt_token_ids: Sequence[int],
        cache_salt: str | None,
        candidates: Sequence[Candidate],
        decoders: Sequence[Candidate] = (),
        is_accepted: bool = False,
    ) -> RoutingDecision:
        """Choose the instance for a prompt.

        `decoders`: candidates for the decode, if that is on another instance. `is_accepted`: the request was accepted
        earlier and must not be rejected.

        Raises:
            RejectedError: no candidate is expected to meet `ttft_slo`.
            ValueError: there is no candidate.
        """
        if not candidates:
            raise ValueError("there are no candidates")
        waits = [self._states[decoder.name].seconds_until_slot(decoder.load) for decoder in decoders]
        decode_wait = min(waits, default=0.0)
        chains: dict[int, HashChain] = {}  # by block size
        considered = list[Considered]()
        for candidate in candidates:
            size = self._states[candidate.name].config.block_size
            chain = chains.setdefault(size, HashChain(size, cache_salt))
            considered.append(self._consider(candidate, prompt_token_ids, chain, decode_wait))
        indices = list(range(len(candidates))) if is_accepted else self._in_time(candidates, considered)
        index = min(indices, key=lambda i: (considered[i].cost, considered[i].queued_tokens, i))
        self._num_choices += 1
        self._states[candidates[index].name].chosen_at = self._num_choices
        return RoutingDecision(index, self.policy, considered)

    def _consider(
        self, candidate: Candidate, token_ids: Sequence[int], chain: HashChain, decode_wait: float
    ) -> Considered:
        state = self._states[candidate.name]
        num_hits = state.pool.num_hit_tokens(token_ids, chain)
        own = len(token_ids) - num_hits
        if self.policy == "round_robin":
            cost = float(state.chosen_at)
        elif self.policy == "least_loaded":
            load = candidate.load
            cost = float(WAITING_WEIGHT * (load.waiting + load.receiving) + load.running)
        else:
            cost = self._cost(state, candidate.queued_tokens + own)
        here = 0.0 if state.role == "prefill" else state.seconds_until_slot(candidate.load)
        return Considered(
            name=candidate.name,
            num_hit_tokens=num_hits,
            num_tokens_to_compute=0 if state.role == "decode" else own,
            queued_tokens=candidate.queued_tokens,
            cost=cost,
            slot_seconds=max(here, decode_wait),
            estimated_seconds=_estimate(state, candidate.queued_tokens, own, here, decode_wait),
        )

    def _cost(self, state: _InstanceState, num_tokens: int) -> float:
        prefill_blocks = num_tokens / state.config.block_size
        decode_blocks = state.pool.num_held / state.num_groups + prefill_blocks
        if state.role == "prefill":
            return prefill_blocks
        if state.role == "decode":
            return decode_blocks
        return self._overlap_weight * prefill_blocks + decode_blocks

    def _in_time(self, candidates: Sequence[Candidate], considered: Sequence[Considered]) -> list[int]:
        """Return the indices of the candidates that may meet the objective. Raises RejectedError if there are none.

        Idle candidates are included: otherwise one slow measurement would reject all later requests.
        """
        slo, found = self.ttft_slo, list[int]()
        for index, (candidate, one) in enumerate(zip(candidates, considered, strict=True)):
            seconds, load = one.estimated_seconds, candidate.load
            is_idle = not (candidate.queued_tokens or load.running or load.waiting or load.receiving)
            if slo is None or seconds is None or seconds <= slo or (is_idle and seconds > one.slot_seconds):
                found.append(index)
        if slo is not None and not found:
            raise RejectedError(min(considered, key=lambda one: one.estimated_seconds or 0.0), slo)
        return found


def _estimate(state: _InstanceState, queued: int, own: int, seconds_here: float, decode_wait: float) -> float | None:
    """Estimate the seconds to the first token. A prompt waits for queued tokens and for a slot at the same time."""
    speed = state.pace.prefill_tokens_per_second
    if state.role == "decode" or speed is None:
        return None
    return max(max(seconds_here, queued / speed) + own / speed, decode_wait)
