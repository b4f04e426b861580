"""Simulation of a placement under Poisson arrivals, with the engine's own scheduler."""

from __future__ import annotations

import random
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from engine.accounting.presets import ModelPreset
from engine.config import EngineConfig
from engine.simulate.cost import StepCost
from engine.simulate.instance_options import Demand, Nodes, Option
from engine.simulate.layers import Card
from engine.simulate.layout import Kind
from engine.simulate.outcome import LinkSpeed, Outcome, SimulatedRequest
from engine.simulate.placement import Placement
from engine.simulate.simulation import Simulation
from engine.trace.records import InstanceRole, ModelFacts
from engine.trace.request_account import time_to_first_token

BLOCK_SIZE = 16


class Tried(Struct, frozen=True, kw_only=True):
    """Result of a simulated placement. Shares are of all requests.

    In DistServe, prefill samples the first token, so TTFT ends when the prompt is computed. Here, as in vLLM, the
    decode instance samples it after the transfer of keys and values; `streamed_ttft` refers to that token.
    """

    num_requests: int
    within_ttft: float  # share whose prompt is computed within TTFT
    within_tpot: float
    within_both: float
    streamed_ttft: float  # share whose first token is streamed within TTFT


def simulate_placement(
    cards: Sequence[Card], placement: Placement, demand: Demand, nodes: Nodes, num_requests: int = 300, seed: int = 0
) -> Tried:
    """Simulate `num_requests` requests of the demand on a placement, and return the shares within the objectives."""
    outcome = _simulate(cards, placement, demand, nodes, num_requests, seed)
    streamed = [(one.ttft or 0.0) <= demand.ttft for one in outcome.requests]
    first = [
        is_streamed if one.prefilled is None else time_to_first_token(one.arrived, one.prefilled) <= demand.ttft
        for one, is_streamed in zip(outcome.requests, streamed, strict=True)
    ]
    after = [(one.tpot or 0.0) <= demand.tpot for one in outcome.requests]
    return Tried(
        num_requests=num_requests,
        within_ttft=sum(first) / num_requests,
        within_tpot=sum(after) / num_requests,
        within_both=sum(a and b for a, b in zip(first, after, strict=True)) / num_requests,
        streamed_ttft=sum(streamed) / num_requests,
    )


def _simulate(
    cards: Sequence[Card], placement: Placement, demand: Demand, nodes: Nodes, num_requests: int, seed: int
) -> Outcome:
    """Run the simulation.

    A step of a prefill instance computes one complete prompt; a step of a mixed instance computes a chunk and its
    decodes. Each instance has the blocks that fit into its GPUs. An instance with several stages is simulated as that
    many instances of one pipeline.
    """
    card_by_gpu, model = {card.gpu.id: card for card in cards}, cards[0].model
    options: dict[Kind, Option] = {option.kind: option for option in placement.options}
    settings: dict[InstanceRole, EngineConfig] = {
        kind: _settings(card_by_gpu[option.gpu], option, demand) for kind, option in options.items()
    }

    def number(kind: Kind) -> int:
        return options[kind].replicas * options[kind].stages if kind in options else 0

    base = settings["decode" if "decode" in settings else "mixed"]
    config = replace(base, prefill=number("prefill"), decode=number("decode"), mixed=number("mixed"))
    places = [node for role in options for node in placement.layout.places[role]]  # one simulated instance per stage
    stages: dict[InstanceRole, int] = {kind: option.stages for kind, option in options.items()}

    def cost(role: InstanceRole) -> StepCost:
        return card_by_gpu[options[role].gpu].cost(options[role].tensor_parallel)

    draw = random.Random(seed)
    wanted, at = [], 0.0
    for _ in range(num_requests):
        at += draw.expovariate(demand.rate)
        prompt = [draw.randrange(model.vocab_size) for _ in range(demand.prompt_tokens)]
        wanted.append(SimulatedRequest(prompt, demand.output_tokens, at))
    # in a side-by-side placement each stage transfers to the decode stage in its node, so nothing leaves a node
    link = LinkSpeed(nodes.network) if placement.network_share else None
    simulation = Simulation(
        facts_of(model),
        config,
        cost,
        settings=settings,
        link=link,
        nodes=places,
        stages=stages,
        seed=seed,
    )
    try:
        return simulation.run(wanted)
    finally:
        simulation.close()


def _settings(card: Card, option: Option, demand: Demand) -> EngineConfig:
    """Return the settings of an instance. A decode instance must be able to recompute preempted prompts."""
    return EngineConfig(
        block_size=BLOCK_SIZE,
        num_blocks=card.room_tokens(option.tensor_parallel, option.stages) // BLOCK_SIZE // option.stages,
        max_num_seqs=option.batch,
        max_num_batched_tokens=option.batch + option.chunk if option.chunk else max(option.batch, demand.prompt_tokens),
        max_model_len=demand.prompt_tokens + demand.output_tokens,
        enable_prefix_caching=False,
        routing_policy="least_loaded",
    )


def facts_of(model: ModelPreset) -> ModelFacts:
    """Return the model facts of a log for a preset."""
    return ModelFacts(
        name=model.name,
        architecture="",
        num_params=model.num_params,
        num_layers=model.num_layers,
        hidden_size=model.hidden_size,
        intermediate_size=model.intermediate_size,
        num_heads=model.num_heads,
        num_kv_heads=model.num_kv_heads,
        head_dim=model.head_dim,
        v_head_dim=model.v_head_dim,
        vocab_size=model.vocab_size,
        max_position=model.max_position,
        dtype=model.dtype,
        sliding_windows=model.sliding_windows,
        tie_word_embeddings=model.tie_word_embeddings,
        num_active_params=model.num_active_params,
        num_experts=model.num_experts,
        num_experts_per_tok=model.num_experts_per_tok,
    )
