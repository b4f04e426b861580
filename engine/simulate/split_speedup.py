"""Speed-up K of prefill with tensor parallelism over n GPUs, by model, GPU, link and prompt length.

Each GPU computes its part of every matrix. There are two all-reduces per layer, after attention and after the
feed-forward network (Shoeybi et al., "Megatron-LM", arXiv 1909.08053, section 3). A ring all-reduce sends 2 (n − 1) / n
times the bytes of the prompt's hidden states. All-reduces do not overlap with computation; link latency is ignored:

    K = D / (D / n + A)      A = 2 · L · 2 · (n − 1) / n · t · h · a / v

D is the roofline's lower bound. A measured D is longer, which makes K larger.
"""

from __future__ import annotations

from engine.accounting.derived import Derived, Factor, derive
from engine.accounting.impossible import impossible
from engine.accounting.presets import GpuPreset, LinkPreset, ModelPreset
from engine.accounting.roofline_steps import Roof, StepTimes
from engine.accounting.size import ACTIVATION_BYTES


def split_speedup(model: ModelPreset, gpu: GpuPreset, link: LinkPreset, gpus: int, tokens: int) -> list[Derived]:
    """Return D, the bytes that a GPU sends, the seconds of the all-reduces, and K (`split_speedup`).

    Raises:
        ImpossibleInput: the GPUs do not divide the heads, or the prompt exceeds the model's maximum position.
    """
    if model.num_heads % gpus:
        raise impossible("heads", name=model.name, heads=model.num_heads, gpus=gpus)
    if tokens > model.max_position:
        raise impossible("context", context=tokens, most=model.max_position)
    roof = Roof(flops_per_second=gpu.fp16_flops_per_second, bytes_per_second=gpu.bytes_per_second, source=gpu.id)
    least = StepTimes(model, roof).prefill(1, tokens).seconds
    alone = derive("split_alone", "s", "d", least.as_factor("d", "least_time"))
    count = Factor("n", gpus, "gpus")
    sent = derive(
        "split_sent", "B", "2 · L · 2 · (n − 1) / n · t · h · a",
        Factor("L", model.num_layers, "layers"), count, Factor("t", tokens, "prompt_tokens"),
        Factor("h", model.hidden_size, "hidden_size"), Factor("a", ACTIVATION_BYTES, "activation_bytes"),
    )  # fmt: skip
    rate = Factor("v", link.bytes_per_second, "link_rate_both" if link.both_directions else "link_rate")
    own = "(v / 2)" if link.both_directions else "v"
    summed = derive("split_summed", "s", f"x / {own}", sent.as_factor("x"), rate)
    speedup = derive(
        "split_speedup", "1", "D / (D / n + A)", alone.as_factor("D"), count, summed.as_factor("A")
    )  # fmt: skip
    return [alone, sent, summed, speedup]
