"""The first benchmark: the engine against `transformers` generate on the bundled model.

    python -m engine.bench.first_path [--model NAME] [--rounds N] [--out FILE]

One sequence, sixteen mixed requests, the price of capture, and the waste of the paged cache; float32, greedy, the same
prompts and lengths for all, tokens compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from transformers import AutoModelForCausalLM

from engine.bench.interleave import Comparison, Variant, interleave
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.machine import machine_facts
from engine.model.capture import CaptureRequest
from engine.model.loader import LoadedModel, load_model
from engine.model.shipped import BUNDLED, shipped_model
from engine.request import Request
from engine.trace.records import Machine

BASELINE = "transformers generate, DynamicCache"
RESULTS = Path(__file__).parent / "results" / "first_path.json"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What one run of this script measured."""

    created: str
    model: str
    seed: int
    machine: Machine
    comparisons: list[Comparison]
    tokens_identical: dict[str, bool]
    max_wasted_slots_per_sequence: int
    block_size: int


def main(argv: list[str] | None = None) -> None:
    """Measure, print, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=BUNDLED)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args(argv)
    model = load_model(args.model, dtype="float32")
    # generate gets a model of its own: the engine's has another attention function and weight layout
    shipped = shipped_model(args.model)
    source = shipped.folder if shipped else args.model
    peer = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, use_safetensors=True).eval()
    peer.generation_config.eos_token_id = None  # as ignore_eos does: every request runs to its length
    random = np.random.default_rng(args.seed)
    vocab = model.facts.vocab_size
    prompts = [random.integers(300, vocab, n).tolist() for n in random.integers(16, 65, 16)]
    longest = args.new_tokens
    same = [longest] * 16
    mixed = [longest, *random.integers(longest // 4, longest + 1, 15).tolist()]
    jobs = {
        "one sequence": (prompts[:1], [longest]),
        "16 requests, prompts of 16 to 64 tokens, outputs of one length": (prompts, same),
        "16 mixed requests, outputs of different lengths too": (prompts, mixed),
    }
    identical: dict[str, bool] = {}
    comparisons = []
    for job, (batch, lengths) in jobs.items():
        variants: dict[str, Callable[[], list[list[int]]]] = {
            BASELINE: partial(_generate, peer, batch, lengths),
            "kvtheater": partial(_engine, model, batch, lengths),
            "kvtheater, logging": partial(_engine, model, batch, lengths, observer="log"),
            "kvtheater, logging and capturing everything": partial(_engine, model, batch, lengths, observer="capture"),
        }
        outputs = {name: run() for name, run in variants.items()}
        reference = next(iter(outputs.values()))
        identical |= {f"{job}: {name}": out == reference for name, out in outputs.items()}
        comparisons.append(
            interleave(
                job,
                BASELINE,
                {name: _counting(run) for name, run in variants.items()},
                args.rounds,
                args.seed,
                lambda line: print(line, file=sys.stderr),
            )
        )
    waste = _most_wasted_slots(model, prompts, mixed)
    report = Report(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        model=f"{model.facts.name} ({model.facts.num_params:,} parameters)",
        seed=args.seed,
        machine=machine_facts(model.device),
        comparisons=comparisons,
        tokens_identical=identical,
        max_wasted_slots_per_sequence=waste,
        block_size=16,
    )
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    for comparison in comparisons:
        print(f"\n{comparison.job} ({comparison.rounds} rounds, others used {comparison.busy:.0%} of the CPU time)")
        for v in comparison.variants:
            low, high = v.ratio_interval
            print(f"  {v.tokens_per_second:9.1f} tokens/s  {v.ratio:5.2f}x  [{low:.2f}, {high:.2f}]  {v.name}")
    print(f"\ntokens identical: {identical}\nmost wasted slots of a sequence: {waste} of {report.block_size} a block")


def _counting(run: Callable[[], list[list[int]]]) -> Variant:
    return lambda: sum(map(len, run()))


def _start(
    model: LoadedModel, prompts: list[list[int]], new_tokens: list[int], observer: Literal["none", "log", "capture"]
) -> tuple[Engine, list[Request]]:
    config = EngineConfig(num_blocks=256, block_size=16, max_num_seqs=16, max_num_batched_tokens=2048, num_logprobs=0)
    capture = CaptureRequest(budget_bytes=1 << 30) if observer == "capture" else None
    engine = Engine(model, config, keep_log=observer != "none", capture=capture)
    return engine, [
        engine.add_request(prompt, SamplingParams(max_tokens=length, ignore_eos=True))
        for prompt, length in zip(prompts, new_tokens, strict=True)
    ]


def _engine(
    model: LoadedModel,
    prompts: list[list[int]],
    new_tokens: list[int],
    observer: Literal["none", "log", "capture"] = "none",
) -> list[list[int]]:
    """Greedy outputs of all prompts, submitted at once."""
    engine, requests = _start(model, prompts, new_tokens, observer)
    with engine:
        while engine.has_unfinished():
            engine.step()
    return [request.output_token_ids for request in requests]


def _most_wasted_slots(model: LoadedModel, prompts: list[list[int]], new_tokens: list[int]) -> int:
    """The most reserved slots without content that any sequence held after any step."""
    engine, requests = _start(model, prompts, new_tokens, "none")
    most = 0
    with engine:
        while engine.has_unfinished():
            engine.step()
            tables = engine.snapshot().block_tables
            size = engine.config.block_size
            most = max(
                [
                    most,
                    *(
                        len(tables.get(r.seq_id, [])) * size - r.sequence.num_computed_tokens
                        for r in requests
                        if r.seq_id in tables
                    ),
                ]
            )
    return most


def _generate(peer: Any, prompts: list[list[int]], new_tokens: list[int]) -> list[list[int]]:
    """`generate` on one left-padded batch, which runs until its longest output is done; the rest is cut off."""
    width = max(map(len, prompts))
    ids = torch.zeros(len(prompts), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        mask[row, width - len(prompt) :] = 1
    with torch.inference_mode():
        out = peer.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=max(new_tokens), pad_token_id=0)
    return [row[width : width + n].tolist() for row, n in zip(out, new_tokens, strict=True)]


if __name__ == "__main__":
    main()
