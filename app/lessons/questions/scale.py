"""Questions about serving at scale, decided by formulas, published benchmarks and the search for a placement."""

from __future__ import annotations

import functools
import math
import random
from statistics import fmean, stdev

from msgspec.structs import replace

from app.lessons.questions.rules import Evidence, Question, Value, choice, numbers, rule
from app.lessons.scene import Scene, Undecided
from engine.bench.record import RESULTS, read_record
from engine.bench.saturation import SCENARIO, Saturation, saturation
from engine.bench.workload import WorkloadRequest
from engine.config import EngineConfig
from engine.simulate.cost import Fixed
from engine.simulate.degrees import goodput_per_gpu
from engine.simulate.instance_options import Demand, Nodes, options
from engine.simulate.layers import Card, card_of
from engine.simulate.layout import Kind
from engine.simulate.placed import facts_of
from engine.simulate.placement import Placement, colocated, disaggregated, on_one_node
from engine.simulate.queues import Prefill, crossing, mean_ttft

PARTS = ("tokenize", "schedule", "forward", "sample")
WAYS = ("apart", "on_one_node", "together")
SATURATED = 0.9  # share of the best rate from which on a step counts as saturated
SAME_RATIO = 1.1  # ratio up to which rates count as equal; larger than the measurement noise
STEPS = ("many", "one", "same")
NODES = Nodes(number=4, gpus=8, network=25e9)
RUNS, REQUESTS, WARM_UP = 20, 400, 50  # of a simulation; the warm-up requests find a nearly empty queue
STUDENT_T = 2.093  # Student's t for 19 degrees of freedom, 95 %
RATIOS = {"one_one": (1, 1), "two_one": (2, 1), "one_two": (1, 2), "three_one": (3, 1)}  # prefill to decode


@rule
def slowest_part(scene: Scene) -> Question:
    """Ask which phase of the next step takes the most time."""
    record = scene.next_step()
    timing = record.timing
    seconds = {
        "tokenize": sum(scene.log.record(i).timing.tokenize for i in range(record.index)),
        "schedule": timing.schedule,
        "forward": timing.forward,
        "sample": timing.sample,
    }
    right = max(seconds, key=lambda part: seconds[part])
    share = round(100 * seconds[right] / sum(seconds.values()))
    evidence = Evidence(record=record.index, figure="timing")
    return choice("slowest_part", right, PARTS, evidence, why=PARTS, share=share)


def crossing_of(percent: int) -> float:
    """Return R · D at which two stages become as fast as two tensor-parallel GPUs with K = percent / 100."""
    found = crossing(Prefill(service=1.0, gpus=2, speedup=percent / 100))
    if found is None:
        raise Undecided("with K = 2, tensor parallelism is faster at every rate")
    return round(found, 3)


@rule
def crossing_rate(scene: Scene, percent: int) -> Question:
    """Ask at which load two stages become faster than two tensor-parallel GPUs (DistServe, 3.1)."""
    right = crossing_of(percent)
    wrong = [("one", 1.0), ("end", percent / 100), ("less", crossing_of(130)), ("more", crossing_of(170))]
    evidence = Evidence(record=0, figure="D + R·D²/(4·(2 − R·D)) = D/K + R·D²/(2·K·(K − R·D))")
    return numbers("crossing_rate", right, wrong, evidence, speedup=percent / 100)


@functools.cache
def measured() -> Saturation:
    """Return the published benchmark record of prefill rates by batch size and prompt length.

    Raises:
        Undecided: there is no record.
    """
    path = RESULTS / f"{SCENARIO}.json"
    if not path.is_file():
        raise Undecided(f"there is no published record of {SCENARIO}")
    return saturation(read_record(path))


def rate_of(prompts: int, tokens: int) -> float:
    """Return the recorded prompt tokens per second of steps with `prompts` prompts of `tokens` tokens."""
    for point in measured().points:
        if (point.batch, point.tokens) == (prompts, tokens):
            return point.rate
    raise Undecided(f"{prompts} prompts of {tokens} tokens were not measured")


@rule
def full_step(scene: Scene, prompts: int) -> Question:
    """Ask from which prompt length on steps are saturated, in the published benchmark record."""
    points = {point.tokens: point.rate for point in measured().points if point.batch == prompts}
    if not points:
        raise Undecided(f"steps of {prompts} prompts were not measured")
    best = max(points.values())
    right = min(tokens for tokens, rate in points.items() if rate >= SATURATED * best)
    lengths = sorted(points)
    wrong = [("any", lengths[0]), ("longest", lengths[-1]), *[("near", n) for n in lengths if n != right]]
    evidence = Evidence(record=0, figure=SCENARIO)
    share = round(100 * points[lengths[0]] / best)
    return numbers("full_step", right, wrong, evidence, prompts=prompts, shortest=lengths[0], share=share)


@rule
def same_tokens(scene: Scene, prompts: int, tokens: int) -> Question:
    """Ask whether a step of several prompts has the same rate as a step of a single prompt with as many tokens."""
    many, one = rate_of(prompts, tokens), rate_of(1, prompts * tokens)
    right = "many" if many > one * SAME_RATIO else "one" if one > many * SAME_RATIO else "same"
    values: dict[str, Value] = {
        "prompts": prompts,
        "tokens": tokens,
        "whole": prompts * tokens,
        "many": round(many),
        "one": round(one),
    }
    question = choice("same_tokens", right, STEPS, Evidence(record=0, figure=SCENARIO), why=STEPS)
    return _with_values(question, values)


@functools.cache
def simulated_wait(percent: int) -> tuple[float, float]:
    """Return the 95 % interval of the mean TTFT of one GPU at a load in percent, in service times, over 20 simulated
    runs of the engine's scheduler.
    """
    from engine.simulate.simulation import Simulation  # imported lazily, because it imports simpy

    config = EngineConfig(block_size=16, num_blocks=64, max_num_seqs=1, enable_prefix_caching=False)
    facts = facts_of(card_of("llama-2-7b", "a100-80gb").model)
    means = []
    for seed in range(RUNS):
        rng, at, requests = random.Random(seed), 0.0, []
        for number in range(REQUESTS):
            at += rng.expovariate(percent / 100)
            requests.append(WorkloadRequest(prompt=[300 + number % 7], output_tokens=1, seed=0, at=at))
        simulation = Simulation(facts, config, Fixed(1.0), seed=seed, keep_log=False)
        served = simulation.run(requests).requests[WARM_UP:]
        simulation.close()
        means.append(fmean(one.ttft or 0.0 for one in served))
    half = STUDENT_T * stdev(means) / math.sqrt(RUNS)
    return round(fmean(means) - half, 2), round(fmean(means) + half, 2)


@rule
def mean_wait(scene: Scene, percent: int) -> Question:
    """Ask for the mean TTFT of one GPU at a load in percent, in service times (M/D/1; DistServe, 3.1)."""
    load = percent / 100
    right = round(mean_ttft(Prefill(service=1.0), "one", load).value, 2)
    wrong = [("nobody", 1.0), ("random", round(1 / (1 - load), 2)), ("always", round(1 + load, 2))]
    low, high = simulated_wait(percent)
    evidence = Evidence(record=0, figure="D + R·D²/(2·(1 − R·D))")
    return numbers("mean_wait", right, wrong, evidence, load=load, runs=RUNS, low=low, high=high, exact=right)


@rule
def own_placement(scene: Scene, rate: int, prompt: int, output: int, ttft: int, tpot: int) -> Question:
    """Ask how a placement with separate prefill and decode divides its GPUs between them."""
    first, after = (option.all_gpus for option in placed("apart", rate, prompt, output, ttft, tpot).options)
    splits = {
        "needs": (first, after),
        "even": ((first + after) // 2, (first + after + 1) // 2),
        "swapped": (after, first),
        "most": (first + after - 2, 2),
    }
    if len(set(splits.values())) < len(splits):
        raise Undecided(f"two of the splits are the same: {splits}")
    serves = {name: served_by(*split, rate, prompt, output, ttft, tpot) for name, split in splits.items()}
    if any(serves[name] >= rate for name in splits if name != "needs"):
        raise Undecided(f"another split also serves {rate} requests a second: {serves}")
    evidence = Evidence(record=0, figure="engine.simulate.placement")
    given = {name: {"a": a, "b": b} for name, (a, b) in splits.items()}
    ordered = sorted(splits, key=lambda name: splits[name])
    values: dict[str, Value] = {"rate": rate, "prompt": prompt, "output": output, "gpus": first + after}
    values |= {name: round(most, 1) for name, most in serves.items()}
    question = choice("own_placement", "needs", ordered, evidence, why=splits, of_options=given)
    return _with_values(question, values)


def served_by(first: int, after: int, rate: int, prompt: int, output: int, ttft_ms: int, tpot_ms: int) -> float:
    """Return the highest rate that `first` GPUs for prefill and `after` GPUs for decode serve."""
    demand = _demand(rate, prompt, output, ttft_ms, tpot_ms)
    sides: list[tuple[Kind, int]] = [("prefill", first), ("decode", after)]
    return min(
        max((gpus // one.gpus * one.goodput for one in options(kind, _card(), NODES, demand)), default=0.0)
        for kind, gpus in sides
    )


def _with_values(question: Question, values: dict[str, Value]) -> Question:
    """Return the question with `values` as placeholders of all its texts."""
    return replace(
        question, values=values, options=[replace(one, values={**values, **one.values}) for one in question.options]
    )


@rule
def sides(scene: Scene, prefill: int, decode: int) -> Question:
    """Ask which ratio of GPUs has the highest goodput per GPU, if one GPU serves `prefill` tenths (or `decode` tenths)
    of a request per second.
    """
    one, other = prefill / 10, decode / 10
    served = {name: goodput_per_gpu(a * one, a, b * other, b) for name, (a, b) in RATIOS.items()}
    right = max(served, key=lambda name: served[name])
    rates = {name: round(rate, 2) for name, rate in served.items()}
    evidence = Evidence(record=0, figure="min(a · prefill, b · decode) / (a + b)")
    values: dict[str, Value] = {**rates, "prefill": one, "decode": other, "best": rates[right]}
    return replace(choice("sides", right, RATIOS, evidence, why=RATIOS), values=values)


@functools.cache
def placed(way: str, rate: int, prompt: int, output: int, ttft_ms: int, tpot_ms: int) -> Placement:
    """Return a placement of Llama 2 70B on four nodes of eight A100 80 GB."""
    card, demand = _card(), _demand(rate, prompt, output, ttft_ms, tpot_ms)
    match way:
        case "apart":
            return disaggregated((card, card), NODES, demand)
        case "on_one_node":
            return on_one_node((card, card), NODES, demand)
        case "together":
            return colocated(card, NODES, demand)
    raise Undecided(f"a placement must be one of {', '.join(WAYS)}, not {way!r}")


def _card() -> Card:
    return card_of("llama-2-70b", "a100-80gb")


def _demand(rate: int, prompt: int, output: int, ttft_ms: int, tpot_ms: int) -> Demand:
    return Demand(rate=rate, prompt_tokens=prompt, output_tokens=output, ttft=ttft_ms / 1000, tpot=tpot_ms / 1000)


@rule
def fewest_gpus(scene: Scene, rate: int, prompt: int, output: int, ttft: int, tpot: int) -> Question:
    """Ask which placement of Llama 2 70B on A100s needs the fewest GPUs for a demand; `ttft` and `tpot` in ms."""
    gpus = {way: placed(way, rate, prompt, output, ttft, tpot).gpus for way in WAYS}
    if list(gpus.values()).count(min(gpus.values())) > 1:
        raise Undecided(f"two placements need equally few GPUs: {gpus}")
    right = min(gpus, key=lambda way: gpus[way])
    evidence = Evidence(record=0, figure="engine.simulate.placement")
    return choice(
        "fewest_gpus", right, WAYS, evidence, why=WAYS, rate=rate, prompt=prompt, output=output,
        apart=gpus["apart"], on_one_node=gpus["on_one_node"], together=gpus["together"],
    )  # fmt: skip
