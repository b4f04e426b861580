"""Where the GPUs go: questions that formulas, published benchmarks and the search for a placement decide."""

from __future__ import annotations

import functools

from msgspec.structs import replace

from app.lessons.questions.rules import Evidence, Question, choice, numbers, rule
from app.lessons.scene import Scene, Undecided
from engine.bench.record import RESULTS, read_record
from engine.bench.saturation import SCENARIO, Saturation, saturation
from engine.simulate.degrees import goodput_per_gpu
from engine.simulate.layers import card_of
from engine.simulate.placement import Demand, Nodes, Placement, apart, on_one_node, together
from engine.simulate.queues import Prefill, crossing

PARTS = ("tokenize", "schedule", "forward", "sample")
WAYS = ("apart", "on_one_node", "together")
ALL = 0.9  # of the best rate: a step that reaches it is full
RATIOS = {"one_one": (1, 1), "two_one": (2, 1), "one_two": (1, 2), "three_one": (3, 1)}  # prefill to decode


@rule
def slowest_part(scene: Scene) -> Question:
    """Which of a request's parts the next step spends most of its time in."""
    record = scene.next_step()
    timing = record.timing
    took = {
        "tokenize": sum(scene.log.record(i).timing.tokenize for i in range(record.index)),
        "schedule": timing.schedule,
        "forward": timing.forward,
        "sample": timing.sample,
    }
    right = max(took, key=lambda part: took[part])
    share = round(100 * took[right] / sum(took.values()))
    evidence = Evidence(record=record.index, figure="timing")
    return choice("slowest_part", right, PARTS, evidence, why=PARTS, share=share)


def crossing_of(percent: int) -> float:
    """R · D at which two stages become as fast as two GPUs that split with K = percent / 100."""
    found = crossing(Prefill(service=1.0, gpus=2, speedup=percent / 100))
    if found is None:
        raise Undecided("with K = 2 splitting is faster at every rate")
    return round(found, 3)


@rule
def crossing_rate(scene: Scene, percent: int) -> Question:
    """At which load two stages become faster than two GPUs that split every matrix (DistServe, 3.1)."""
    right = crossing_of(percent)
    wrong = [("one", 1.0), ("end", percent / 100), ("less", crossing_of(130)), ("more", crossing_of(170))]
    evidence = Evidence(record=0, figure="D + R·D²/(4·(2 − R·D)) = D/K + R·D²/(2·K·(K − R·D))")
    return numbers("crossing_rate", right, wrong, evidence, speedup=percent / 100)


@functools.cache
def measured() -> Saturation:
    """The published record of prefill on two axes.

    Raises:
        Undecided: there is none.
    """
    path = RESULTS / f"{SCENARIO}.json"
    if not path.is_file():
        raise Undecided(f"there is no published record of {SCENARIO}")
    return saturation(read_record(path))


def rate_of(prompts: int, tokens: int) -> float:
    """Prompt tokens a second of that many prompts of that length in a step, as recorded."""
    for point in measured().points:
        if (point.batch, point.tokens) == (prompts, tokens):
            return point.rate
    raise Undecided(f"{prompts} prompts of {tokens} tokens were not measured")


@rule
def full_step(scene: Scene, prompts: int) -> Question:
    """From which length on steps of so many prompts are full, in the published record of prefill on two axes."""
    points = {point.tokens: point.rate for point in measured().points if point.batch == prompts}
    if not points:
        raise Undecided(f"steps of {prompts} prompts were not measured")
    best = max(points.values())
    right = min(tokens for tokens, rate in points.items() if rate >= ALL * best)
    lengths = sorted(points)
    wrong = [("any", lengths[0]), ("longest", lengths[-1]), *[("near", n) for n in lengths if n != right]]
    evidence = Evidence(record=0, figure=SCENARIO)
    share = round(100 * points[lengths[0]] / best)
    return numbers("full_step", right, wrong, evidence, prompts=prompts, shortest=lengths[0], share=share)


@rule
def sides(scene: Scene, prefill: int, decode: int) -> Question:
    """Which ratio of GPUs has the most goodput a GPU, where one serves `prefill` and `decode` tenths a second."""
    one, other = prefill / 10, decode / 10
    served = {name: goodput_per_gpu(a * one, a, b * other, b) for name, (a, b) in RATIOS.items()}
    right = max(served, key=lambda name: served[name])
    told = {name: round(rate, 2) for name, rate in served.items()}
    evidence = Evidence(record=0, figure="min(a · prefill, b · decode) / (a + b)")
    values = {**told, "prefill": one, "decode": other, "best": told[right]}
    return replace(choice("sides", right, RATIOS, evidence, why=RATIOS), values=values)


@functools.cache
def placed(way: str, rate: int, prompt: int, output: int, ttft_ms: int, tpot_ms: int) -> Placement:
    """Llama 2 70B on four nodes of eight A100 80 GB, by one of the ways."""
    card = card_of("llama-2-70b", "a100-80gb")
    nodes = Nodes(number=4, gpus=8, network=25e9)
    demand = Demand(rate=rate, prompt_tokens=prompt, output_tokens=output, ttft=ttft_ms / 1000, tpot=tpot_ms / 1000)
    match way:
        case "apart":
            return apart((card, card), nodes, demand)
        case "on_one_node":
            return on_one_node((card, card), nodes, demand)
        case "together":
            return together(card, nodes, demand)
    raise Undecided(f"a placement is one of {', '.join(WAYS)}, not {way!r}")


@rule
def fewest_gpus(scene: Scene, rate: int, prompt: int, output: int, ttft: int, tpot: int) -> Question:
    """Which way of placing Llama 2 70B on A100s takes the fewest GPUs for a demand; `ttft` and `tpot` in ms."""
    gpus = {way: placed(way, rate, prompt, output, ttft, tpot).gpus for way in WAYS}
    if list(gpus.values()).count(min(gpus.values())) > 1:
        raise Undecided(f"two ways take as few GPUs: {gpus}")
    right = min(gpus, key=lambda way: gpus[way])
    evidence = Evidence(record=0, figure="engine.simulate.placement")
    return choice(
        "fewest_gpus", right, WAYS, evidence, why=WAYS, rate=rate, prompt=prompt, output=output,
        apart=gpus["apart"], on_one_node=gpus["on_one_node"], together=gpus["together"],
    )  # fmt: skip
