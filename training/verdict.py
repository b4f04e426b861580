"""Compare a newly trained model with the shipped one, on a CPU.

    python -m training.verdict --corpus FOLDER --config training/bundled.toml --model FOLDER [--against FOLDER]
                               [--out FILE.json]

The new model is better if bits per character are not higher for either language and lower for one, it recites the
complete demonstration and no fewer other poems, English text loops no more often, and no pattern of the attention heads
that lessons use is lost. Prints each figure of both models and the verdict: "better" or "not better".
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from training.config import Section, load_config
from training.corpus import Corpus, read_split
from training.data import Tokens
from training.evaluate import continuation, heldout_bits, heldout_prose, recited, recites_whole
from training.heads import OPENINGS, measure

OPENING_TOKENS, LOOP_TOKENS = 32, 96  # held-out English: prompt, and continuation that is checked for loops
PERIODS, TIMES = range(1, 25), 3  # a loop is a piece of such a length, repeated that many times at the end
CLEAR = min(weight for _, weight in OPENINGS)  # minimum weight of a head that shows its pattern
TOLERANCE = 0.002  # bits per character, for the rounding of exported weights


class Figure(NamedTuple):
    """Value of a figure for both models."""

    name: str
    new: float
    old: float
    is_worse: bool


def loops(ids: Tokens) -> bool:
    """Return whether a text ends with a repeated piece."""
    return any(
        len(ids) >= TIMES * period and all(ids[-k] == ids[-k - period] for k in range(1, (TIMES - 1) * period + 1))
        for period in PERIODS
    )


def figures(folder: Path, corpus: Corpus, settings: Section, limit: int) -> dict[str, float]:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    bits: dict[str, Any] = heldout_bits(model, None, tokenizer, corpus, settings, limit)
    body = corpus.famous[0].body
    famous = [poem.body for poem in corpus.famous if "。" in poem.body and len(poem.body) <= limit]
    openings = [
        ids[:OPENING_TOKENS]
        for ids in heldout_prose(corpus, tokenizer, settings["english_chars"], limit)
        if len(ids) >= OPENING_TOKENS
    ][: settings["clause_prompts"]]
    looping = sum(loops(continuation(model, ids, LOOP_TOKENS, sample=False)) for ids in openings)
    patterns = measure(folder, corpus)["patterns"]
    return {
        "bits a character, Chinese": bits["chinese"]["bits_per_character"],
        "bits a character, English": bits["english"]["bits_per_character"],
        "demonstration missing": len(body) - body.index("。") - 1 - recited(model, tokenizer, body),
        "poems not recited": sum(not recites_whole(model, tokenizer, poem) for poem in famous)
        + sum(not recites_whole(model, tokenizer, poem.body) for poem in corpus.famous_english),
        "English that loops": looping / max(1, len(openings)),
        "patterns without a clear head": sum(one["mean_weight"] < CLEAR for one in patterns),
    }


def compared(new: dict[str, float], old: dict[str, float]) -> tuple[list[Figure], bool]:
    """Return all figures (smaller is better), and whether the new model is better."""
    found = [
        Figure(name, new[name], old[name], new[name] > old[name] + (TOLERANCE if name.startswith("bits") else 0))
        for name in new
    ]
    improved = any(figure.new < figure.old - TOLERANCE for figure in found if figure.name.startswith("bits"))
    return found, improved and new["demonstration missing"] == 0 and not any(figure.is_worse for figure in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with the corpora")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="folder of the new model, with or without tokenizer")
    parser.add_argument("--against", type=Path, default=Path("engine/model/bundled"), help="(default: %(default)s)")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    args = parser.parse_args()
    config = load_config(args.config)
    corpus = read_split(args.corpus, config["data"])
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if not (args.model / name).exists():
            shutil.copy(args.against / name, args.model / name)
    settings, limit = config["evaluate"], config["train"]["row_tokens"]
    new, old = (figures(folder, corpus, settings, limit) for folder in (args.model, args.against))
    found, is_better = compared(new, old)
    for figure in found:
        print(f"{figure.name:32} {figure.new:9.4f} {figure.old:9.4f}{'  worse' if figure.is_worse else ''}")
    word = "better" if is_better else "not better"
    print(word)
    if args.out:
        text = json.dumps({"verdict": word, "new": new, "old": old}, indent=1)
        args.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
