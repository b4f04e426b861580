"""Numbers of a placement with their formulas: instances, GPUs, transfers, objectives.

The goodput of a prefill instance has no closed form (`engine.simulate.waiting` inverts the M/D/1 distribution), so its
utilization and the maximum wait of a prompt are returned as well.
"""

from __future__ import annotations

from engine.accounting.derived import Derived, Factor, derive
from engine.accounting.memory import stored_bytes_per_token
from engine.accounting.presets import ModelPreset
from engine.simulate.instance_options import Demand, Nodes, Option, mean_running
from engine.simulate.placement import Placement


def placement_numbers(found: Placement, model: ModelPreset, nodes: Nodes, demand: Demand) -> list[Derived]:
    """Return the numbers in display order. `found`: placement for this model, these nodes and this demand."""
    beside = len(found.options) == 2 and found.is_side_by_side
    each = _replicas_beside(found, demand) if beside else [_replicas(one, demand) for one in found.options]
    numbers = [number for one in found.options for number in _of_one(one, demand)]
    return [*numbers, *each, *_all(found, each, demand), *_moved(found, model, nodes, demand)]


def _of_one(one: Option, demand: Demand) -> list[Derived]:
    """Return the capacity of an instance, derived from its step time."""
    stages, step = Factor("s", one.stages, f"stages_{one.kind}"), Factor("T", one.seconds, "step_seconds")
    if one.kind == "prefill":
        prompt, limit = Factor("D", one.seconds, "prompt_seconds"), Factor("L", demand.ttft, "ttft")
        return [
            derive("wait_allowed", "s", "L − D", limit, prompt),
            derive("prefill_busy", "1", "g · D / s", Factor("g", one.goodput, "goodput_prefill"), prompt, stages),
        ]
    most = Factor("m", mean_running(one.batch * one.stages, demand), "mean_under_way")
    output = Factor("O", demand.output_tokens, "output_tokens")
    decoded = derive("goodput_of_decode", "1/s", "m / ((O − 1) · T)", most, output, step)
    if one.kind == "decode":
        return [decoded]
    prompt_tokens = Factor("P", demand.prompt_tokens, "prompt_tokens")
    chunks = derive("chunked_seconds", "s", "⌈P / c⌉ · T", prompt_tokens, Factor("c", one.chunk, "chunk"), step)
    return [chunks, decoded]


def _rate(demand: Demand) -> Factor:
    return Factor("R", demand.rate, "rate")


def _replicas(one: Option, demand: Demand) -> Derived:
    goodput = Factor("g", one.goodput, f"goodput_{one.kind}")
    return derive(f"replicas_{one.kind}", "1", "⌈R / g⌉", _rate(demand), goodput)


def _replicas_beside(found: Placement, demand: Demand) -> list[Derived]:
    """Return the replicas of a side-by-side placement. The slower side determines the number of groups of nodes."""
    first, after = found.options
    groups = len(found.layout.nodes) // first.stages
    factors = (
        _rate(demand),
        Factor("a", first.replicas // groups, "beside_prefill"),
        Factor("b", after.replicas // groups, "beside_decode"),
        Factor("gp", first.goodput, "goodput_prefill"),
        Factor("gd", after.goodput, "goodput_decode"),
    )
    slower = "⌈R / min(a · gp, b · gd)⌉"
    return [
        derive("replicas_prefill", "1", f"a · {slower}", *factors),
        derive("replicas_decode", "1", f"b · {slower}", *factors),
    ]


def _all(found: Placement, each: list[Derived], demand: Demand) -> list[Derived]:
    factors, terms = [], []
    for at, (one, replicas) in enumerate(zip(found.options, each, strict=True), 1):
        terms.append(f"n{at} · t{at} · s{at}")
        factors += [
            replicas.as_factor(f"n{at}"),
            Factor(f"t{at}", one.tensor_parallel, f"split_{one.kind}"),
            Factor(f"s{at}", one.stages, f"stages_{one.kind}"),
        ]
    gpus = derive("all_gpus", "1", " + ".join(terms), *factors)
    return [gpus, derive("rate_per_gpu", "1/s", "R / G", _rate(demand), gpus.as_factor("G"))]


def _moved(found: Placement, model: ModelPreset, nodes: Nodes, demand: Demand) -> list[Derived]:
    if not found.network_share:
        return []
    prompt = derive(
        "moved_bytes", "B", "P · k", Factor("P", demand.prompt_tokens, "prompt_tokens"),
        Factor("k", stored_bytes_per_token(model), "token_bytes"),
    )  # fmt: skip
    moved, network = prompt.as_factor("m"), Factor("v", nodes.network, "node_network")
    busiest = Factor("x", found.layout.busiest, "busiest_share")
    return [
        prompt,
        derive("moved_seconds", "s", "m / v", moved, network),
        derive("network_used", "1", "x · R · m / v", busiest, _rate(demand), moved, network),
    ]
