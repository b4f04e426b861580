"""Instance configurations and the request rate that each can serve (DistServe, arXiv 2401.09670 v3, section 4).

An instance has `tensor_parallel` × `stages` GPUs of one kind; each tensor-parallel group is within a node. Its goodput
is the rate at which `share` of the requests, all of one length, meet their objectives. Prefill samples the first token,
as in the paper.

    prefill    M/D/1 queue: a prompt takes D seconds, and one can begin every D / stages:  P(wait ≤ TTFT − D)
    decode     the number of running sequences is Poisson with mean R · (output − 1) · T (M/G/∞; Tijms, "A First Course
               in Stochastic Models", 1.1.3):  P(number ≤ what fits into memory and into a step within TPOT)
    mixed      steps within TPOT have prompt chunks and decodes, and both conditions hold

The memory limit is `engine.accounting.token_capacity`. Transfers between stages take no time. The goodput of a mixed
instance is a lower bound, because every step is assumed to have a chunk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from engine.accounting.impossible import ImpossibleInput, sentence
from engine.accounting.work import attended_keys
from engine.simulate import waiting
from engine.simulate.cost import Linear, StepShape
from engine.simulate.layers import Card
from engine.simulate.layout import Instances, Kind

MAX_BATCH = 1024
CHUNKS = (64, 128, 256, 512, 1024, 2048)


class Demand(Struct, frozen=True, kw_only=True):
    """Poisson rate per second, lengths, and objectives in seconds that `share` of the requests must meet."""

    rate: float
    prompt_tokens: int
    output_tokens: int
    ttft: float
    tpot: float
    share: float = 0.9


class Nodes(Struct, frozen=True, kw_only=True):
    """Available nodes with `gpus` GPUs each. `network`: bytes per second of a node in each direction."""

    number: int
    gpus: int
    network: float


class Option(Struct, frozen=True, kw_only=True):
    """Instance configuration and the number of replicas that the demand needs. Rates are requests per second."""

    kind: Kind
    gpu: str
    tensor_parallel: int
    stages: int
    goodput: float  # per instance
    seconds: float  # time of a prompt for prefill, of a step otherwise
    batch: int  # decoding sequences per stage; prefill: 1
    chunk: int  # prompt tokens per step of a mixed instance; otherwise 0
    replicas: int

    @property
    def gpus(self) -> int:
        """Number of GPUs of an instance."""
        return self.tensor_parallel * self.stages

    @property
    def all_gpus(self) -> int:
        """Number of GPUs of all replicas."""
        return self.gpus * self.replicas

    @property
    def goodput_per_gpu(self) -> float:
        return self.goodput / self.gpus

    @property
    def instances(self) -> Instances:
        """Description of all replicas for the layout."""
        return Instances(self.kind, self.gpu, self.tensor_parallel, self.stages, self.replicas)


class Capacity(NamedTuple):
    """Capacity of an instance; the fields are those of `Option`. All are 0 if an objective cannot be met."""

    goodput: float = 0.0
    seconds: float = 0.0
    batch: int = 0
    chunk: int = 0


class PlacementError(ImpossibleInput):
    """No configuration can serve the demand. The message gives the reason."""


def placement_error(key: str, **values: str | float) -> PlacementError:
    """Return the error with the text of that key in `impossible.json`."""
    return PlacementError(key, sentence(key, **values))


def options(kind: Kind, card: Card, nodes: Nodes, demand: Demand) -> list[Option]:
    """Return all instance configurations of this kind with a goodput above 0.

    Raises:
        ValueError: the demand or the nodes are invalid.
        PlacementError: no layers of the model were measured on the card.
    """
    _check(nodes, demand)
    if not card.degrees:
        known = ", ".join(card.measured_on) or "–"
        raise placement_error("no_times_on", model=card.model.name, gpu=card.gpu.name, known=known)
    found = []
    for tp, stages in _shapes(card, nodes):
        capacity = _CAPACITY_OF[kind](card, tp, stages, demand)
        if capacity.goodput > 0:
            replicas = math.ceil(demand.rate / capacity.goodput)
            found.append(
                Option(
                    kind=kind, gpu=card.gpu.id, tensor_parallel=tp, stages=stages, replicas=replicas,
                    **capacity._asdict()
                )
            )  # fmt: skip
    return found


def _shapes(card: Card, nodes: Nodes) -> Iterator[tuple[int, int]]:
    """Yield measured (tensor_parallel, stages) that divide nodes and layers evenly and have memory for tokens."""
    for tp in card.degrees:
        if nodes.gpus % tp:
            continue
        for stages in range(1, nodes.number * nodes.gpus // tp + 1):
            if card.model.num_layers % stages == 0 and card.room_tokens(tp, stages):
                yield tp, stages


def prompt_seconds(cost: Linear, tokens: int) -> float:
    """Return the seconds of a step that prefills one prompt."""
    return cost.seconds(StepShape(tokens, 1, tokens, attended_keys(0, tokens, None)))


def _prefill(card: Card, tp: int, stages: int, demand: Demand) -> Capacity:
    if card.room_tokens(tp, stages) < demand.prompt_tokens:
        return Capacity()
    seconds = prompt_seconds(card.cost(tp), demand.prompt_tokens)
    return Capacity(waiting.highest_rate(seconds / stages, demand.ttft - seconds, demand.share), seconds, 1)


def _decode(card: Card, tp: int, stages: int, demand: Demand) -> Capacity:
    cost = card.cost(tp)
    batch = _largest_batch(
        lambda number: step_seconds(cost, number, demand, 0), _max_batch(card, tp, stages, demand), demand.tpot
    )
    if not batch:
        return Capacity()
    seconds = step_seconds(cost, batch, demand, 0)
    return Capacity(decode_rate(batch * stages, seconds, demand), seconds, batch)


def _mixed(card: Card, tp: int, stages: int, demand: Demand) -> Capacity:
    """Return the highest capacity over the chunk sizes, assuming that every step has a chunk."""
    cost, max_batch = card.cost(tp), _max_batch(card, tp, stages, demand)
    best = Capacity()
    for chunk in CHUNKS:
        batch = _largest_batch(
            lambda number, chunk=chunk: step_seconds(cost, number, demand, chunk), max_batch, demand.tpot
        )
        if not batch:
            continue
        seconds = step_seconds(cost, batch, demand, chunk)
        prompt = math.ceil(demand.prompt_tokens / chunk) * seconds
        first = waiting.highest_rate(prompt / stages, demand.ttft - prompt, demand.share)
        after = decode_rate(batch * stages, seconds, demand)
        best = max(best, Capacity(min(first, after), seconds, batch, chunk))
    return best


_CAPACITY_OF = {"prefill": _prefill, "decode": _decode, "mixed": _mixed}


def _max_batch(card: Card, tp: int, stages: int, demand: Demand) -> int:
    """Return the number of sequences at full length per stage that fit into memory."""
    longest = demand.prompt_tokens + demand.output_tokens
    return min(MAX_BATCH, card.room_tokens(tp, stages) // longest // stages)


def step_seconds(cost: Linear, batch: int, demand: Demand, chunk: int) -> float:
    """Return the seconds of a step: sequences are halfway through their outputs, and the chunk through its prompt."""
    context = demand.prompt_tokens + demand.output_tokens // 2
    half = demand.prompt_tokens // 2
    pairs = attended_keys(half, chunk, None) if chunk else 0
    keys = batch * context + (half + chunk if chunk else 0)
    return cost.seconds(StepShape(batch + chunk, batch + (chunk > 0), keys, pairs))


def _largest_batch(seconds: object, max_batch: int, within: float) -> int:
    """Return the largest batch up to `max_batch` whose step takes at most `within` seconds, or 0."""
    assert callable(seconds)
    if max_batch < 1 or seconds(1) > within:
        return 0
    low, high = 1, max_batch + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if seconds(middle) <= within else (low, middle)
    return low


def decode_rate(max_batch: int, seconds: float, demand: Demand) -> float:
    """Return the rate at which at most `max_batch` requests run with probability `share`, in steps of `seconds`."""
    return mean_running(max_batch, demand) / ((demand.output_tokens - 1) * seconds)  # prefill samples the first token


def mean_running(max_batch: int, demand: Demand) -> float:
    """Return the largest mean of a Poisson variable that is at most `max_batch` with probability `share`."""
    from scipy.special import pdtri  # lazy: every server imports this module, but few use it

    return float(pdtri(max_batch, demand.share))


def _check(nodes: Nodes, demand: Demand) -> None:
    if min(nodes.number, nodes.gpus) < 1 or not nodes.network > 0:
        raise ValueError("nodes need at least one node, at least one GPU each, and a network bandwidth above 0")
    if min(demand.prompt_tokens, demand.output_tokens - 1) < 1 or not demand.rate > 0:
        raise ValueError("a demand needs a rate above 0, prompts of at least 1 token and outputs of at least 2")
    if not (demand.ttft > 0 and demand.tpot > 0 and 0 < demand.share < 1):
        raise ValueError("objectives must be above 0 s, for a share of requests between 0 and 1")
