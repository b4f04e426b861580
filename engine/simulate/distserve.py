"""Figures 1, 3, 4 and 5 of DistServe (arXiv 2401.09670 v3), computed from public inputs, beside the paper's numbers.

The paper ran OPT on its own engine and A100s. Here the time of a step is the sum of measured times of layers with
nearly the same matrices (`layer_times.toml`) and of attention by the roofline, without host time. So steps are shorter
than in the paper and rates are higher. Shapes of curves, orders and ratios can be compared.

    1    one GPU, 512 input and 64 output tokens, Poisson arrivals: only prefill, only decode, or both on the GPU
    3    tokens per second of one step by batch size, for prefill and for decode
    4    mean TTFT of two GPUs by rate: two pipeline stages, or tensor parallelism with a speed-up K
    5    time of a decode step of 128 sequences, and its tokens per second, by number of GPUs
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable
from itertools import pairwise
from statistics import quantiles

from msgspec import Struct

from engine.accounting.work import attended_keys
from engine.config import EngineConfig
from engine.simulate import waiting
from engine.simulate.cost import StepShape
from engine.simulate.instance_options import Demand, decode_rate, prompt_seconds, step_seconds
from engine.simulate.layers import Card, card_of
from engine.simulate.outcome import SimulatedRequest
from engine.simulate.placed import BLOCK_SIZE, facts_of
from engine.simulate.queues import Arrangement, Prefill, crossing, mean_ttft
from engine.simulate.simulation import Simulation

SOURCE = "DistServe, arXiv 2401.09670 v3"
SMALL, LARGE, GPU = "opt-13b", "opt-66b", "a100-80gb"
# Figure 1, for 90 % of the requests.
DEMAND = Demand(rate=1.0, prompt_tokens=512, output_tokens=64, ttft=0.4, tpot=0.04)
REQUESTS, SEED = 200, 0
RATES = [0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]  # requests per second on the GPU that prefills and decodes
STEP_TOKENS, MAX_SEQUENCES = 2048, 256  # limits of a step on that GPU, with complete prompts
LENGTHS, PROMPTS = [128, 256, 512, 1024], [1, 2, 4, 8, 16]  # figure 3, prefill: tokens, prompts per step
CONTEXT, SEQUENCES = 512, [1, 2, 4, 8, 16, 32, 64, 96]  # figure 3, decode: tokens per sequence, sequences
SPEEDUPS = [1.3, 1.5, 1.7]  # figure 4
FULL = 0.9  # share of the highest throughput above which a step counts as saturating the GPU
BATCH, PROMPT = 128, 256  # figure 5
PREFILLS, DECODES = 2, 1  # GPUs of the paper's example under figure 1


class Line(Struct, frozen=True, kw_only=True):
    """Curve. `value`: its parameter, a number of tokens or a speed-up; None if it is the only curve of its kind."""

    kind: str
    value: float | None = None
    points: list[tuple[float, float]]


class Panel(Struct, frozen=True, kw_only=True):
    """Plot. The page defines its axes by `id`. `bound`: objective, drawn as a line."""

    id: str
    lines: list[Line]
    bound: float | None = None


class Compared(Struct, frozen=True, kw_only=True):
    """Number computed here. `printed`: number in the paper; None if the paper only shows a trend."""

    id: str
    printed: float | None
    here: float


class PaperFigure(Struct, frozen=True, kw_only=True):
    """Reproduced figure of the paper."""

    number: int
    panels: list[Panel]
    compared: list[Compared]


class Paper(Struct, frozen=True, kw_only=True):
    """All figures and the sources of their inputs."""

    figures: list[PaperFigure]
    source: str
    times: list[str]  # source of each model's step times


@functools.cache
def paper() -> Paper:
    """Compute the four figures once, which takes some seconds of one core."""
    small, large = card_of(SMALL, GPU), card_of(LARGE, GPU)
    return Paper(
        figures=[_figure_1(small), _figure_3(small), _figure_4(large), _figure_5(small)],
        source=SOURCE,
        times=[small.cost().source, large.cost().source],
    )


# figure 1: interference of prefill and decode


def _figure_1(card: Card) -> PaperFigure:
    cost = card.cost()
    seconds = prompt_seconds(cost, DEMAND.prompt_tokens)
    both = [(rate, *percentiles_of_both(card, rate)) for rate in RATES]
    most = card.room_tokens(max_num_batched_tokens=STEP_TOKENS) // (DEMAND.prompt_tokens + DEMAND.output_tokens)
    steps = [(batch, step_seconds(cost, batch, DEMAND, 0)) for batch in range(1, most + 1)]
    alone = [(decode_rate(batch, took, DEMAND), took) for batch, took in steps]
    prefill = waiting.highest_rate(seconds, DEMAND.ttft - seconds, DEMAND.share)
    decode = max((rate for rate, took in alone if took <= DEMAND.tpot), default=0.0)
    colocated = min(
        _crossing_of([(rate, ttft) for rate, ttft, _ in both], DEMAND.ttft),
        _crossing_of([(rate, tpot) for rate, _, tpot in both], DEMAND.tpot),
    )
    disaggregated = min(PREFILLS * prefill, DECODES * decode) / (PREFILLS + DECODES)
    fastest = 0.95 / seconds
    curve = [
        (rate, seconds + waiting.within(rate, seconds, DEMAND.share))
        for rate in (fastest * part / 40 for part in range(1, 41))
    ]
    ttft = Panel(
        id="ttft_p90",
        lines=[
            Line(kind="both", points=[(rate, ttft) for rate, ttft, _ in both]),
            Line(kind="prefill_alone", points=curve),
        ],
        bound=DEMAND.ttft,
    )
    tpot = Panel(
        id="tpot_p90",
        lines=[
            Line(kind="both", points=[(rate, tpot) for rate, _, tpot in both]),
            Line(kind="decode_alone", points=alone),
        ],
        bound=DEMAND.tpot,
    )
    compared = [
        Compared(id="rate_both", printed=1.6, here=colocated),
        Compared(id="rate_prefill", printed=5.6, here=prefill),
        Compared(id="rate_decode", printed=10.0, here=decode),
        Compared(id="rate_apart", printed=3.3, here=disaggregated),
        Compared(id="times_apart", printed=2.1, here=disaggregated / colocated),
    ]
    return PaperFigure(number=1, panels=[ttft, tpot], compared=compared)


def percentiles_of_both(card: Card, rate: float, num_requests: int = REQUESTS) -> tuple[float, float]:
    """Return simulated 90th percentiles of TTFT and TPOT on one GPU that prefills complete prompts and decodes."""
    config = EngineConfig(
        block_size=BLOCK_SIZE,
        num_blocks=card.room_tokens(max_num_batched_tokens=STEP_TOKENS) // BLOCK_SIZE,
        max_num_seqs=MAX_SEQUENCES,
        max_num_batched_tokens=STEP_TOKENS,
        max_model_len=card.model.max_position,
        enable_prefix_caching=False,
        enable_chunked_prefill=False,
    )
    draw, at = random.Random(SEED), 0.0
    wanted = []
    for _ in range(num_requests):
        at += draw.expovariate(rate)
        prompt = [draw.randrange(card.model.vocab_size) for _ in range(DEMAND.prompt_tokens)]
        wanted.append(SimulatedRequest(prompt, DEMAND.output_tokens, at))
    simulation = Simulation(facts_of(card.model), config, card.cost(), seed=SEED, keep_log=False)
    try:
        served = simulation.run(wanted).requests
    finally:
        simulation.close()
    return _p90(one.ttft or 0.0 for one in served), _p90(one.tpot or 0.0 for one in served)


def _p90(values: Iterable[float]) -> float:
    return quantiles(values, n=10, method="inclusive")[-1]


def _crossing_of(points: list[tuple[float, float]], bound: float) -> float:
    """Return the x where an increasing curve reaches `bound` (linear interpolation), or its last x if it never does."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if y1 > bound:
            return x0 + (x1 - x0) * max(0.0, bound - y0) / (y1 - y0)
    return points[-1][0]


# figure 3: batch size that saturates the GPU


def _figure_3(card: Card) -> PaperFigure:
    cost = card.cost()

    def prefill(number: int, tokens: int) -> float:
        keys = number * tokens
        pairs = number * attended_keys(0, tokens, None)
        return keys / cost.seconds(StepShape(keys, number, keys, pairs))

    def decode(number: int) -> float:
        return number / cost.seconds(StepShape(number, number, number * CONTEXT, 0))

    lengths = range(16, LENGTHS[-1] + 1, 16)
    rates = [prefill(1, tokens) for tokens in lengths]
    fills = next(tokens for tokens, rate in zip(lengths, rates, strict=True) if rate >= FULL * max(rates))
    return PaperFigure(
        number=3,
        panels=[
            Panel(id="prefill_rate", lines=[_line("tokens", one, PROMPTS, prefill) for one in LENGTHS]),
            Panel(
                id="decode_rate",
                lines=[Line(kind="decode", points=[(number, decode(number)) for number in SEQUENCES])],
            ),
        ],
        compared=[
            Compared(id="fills", printed=512.0, here=float(fills)),
            Compared(id="more_prompts", printed=None, here=prefill(8, 512) / prefill(1, 512)),
            Compared(id="more_sequences", printed=None, here=decode(64) / decode(8)),
        ],
    )


def _line(kind: str, value: int, over: list[int], of: Callable[[int, int], float]) -> Line:
    return Line(kind=kind, value=float(value), points=[(number, of(number, value)) for number in over])


# figure 4: pipeline stages or tensor parallelism for prefill


def _figure_4(card: Card) -> PaperFigure:
    service, split = (prompt_seconds(card.cost(gpus), DEMAND.prompt_tokens) for gpus in (1, 2))
    measured = Prefill(service=service, gpus=2, speedup=service / split)
    meets = crossing(measured)
    variants = [Prefill(service=service, gpus=2, speedup=speedup) for speedup in SPEEDUPS]
    return PaperFigure(
        number=4,
        panels=[
            Panel(
                id="ttft_mean",
                lines=[
                    Line(kind="stages", points=_queue(measured, "inter")),
                    Line(kind="split", value=measured.speedup, points=_queue(measured, "intra")),
                ],
            ),
            Panel(
                id="ttft_speedup",
                lines=[
                    Line(kind="stages", points=_queue(measured, "inter")),
                    *(Line(kind="split", value=one.speedup, points=_queue(one, "intra")) for one in variants),
                ],
            ),
        ],
        compared=[
            Compared(id="speedup", printed=None, here=measured.speedup),
            Compared(id="crossing", printed=None, here=0.0 if meets is None else meets / service),
            *(
                Compared(id=f"crossing_{one.speedup:g}", printed=None, here=(crossing(one) or 0.0) / service)
                for one in variants
            ),
        ],
    )


def _queue(prefill: Prefill, arrangement: Arrangement) -> list[tuple[float, float]]:
    rates = [0.96 * prefill.max_load(arrangement) / prefill.service * part / 60 for part in range(61)]
    return [(rate, mean_ttft(prefill, arrangement, rate).value) for rate in rates]


# figure 5: pipeline stages or tensor parallelism for decode


def _figure_5(card: Card) -> PaperFigure:
    keys = BATCH * PROMPT
    degrees = card.degrees
    split = [(gpus, card.cost(gpus).seconds(StepShape(BATCH, BATCH, keys, 0))) for gpus in degrees]
    one = split[0][1]
    (_, two), (last, most) = split[1], split[-1]
    return PaperFigure(
        number=5,
        panels=[
            Panel(
                id="step",
                lines=[
                    Line(kind="stages", points=[(gpus, one) for gpus in degrees]),
                    Line(kind="split", points=[(gpus, took) for gpus, took in split]),
                ],
            ),
            Panel(
                id="throughput",
                lines=[
                    Line(kind="stages", points=[(gpus, gpus * BATCH / one) for gpus in degrees]),
                    Line(kind="split", points=[(gpus, BATCH / took) for gpus, took in split]),
                ],
            ),
        ],
        compared=[
            Compared(id="step_of_two", printed=None, here=one / two),
            Compared(id="step_of_all", printed=None, here=one / most),
            Compared(id="stages_of_all", printed=None, here=float(last)),
        ],
    )
