"""Measure what a model remembers of a passage, as the bits that it saves at the second reading, by distance.

    python -m training.recall --corpus FOLDER --config training/bundled.toml [--out FILE.json] MODEL…

The model reads a passage of held-out text, then other text of a given length, then the passage again. The bits of the
passage's last tokens are compared with those after another passage instead of the first reading; the difference is what
the model remembers. MODEL is the name of a shipped model.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, PreTrainedModel

from engine.model.shipped import SHIPPED
from training.config import load_config
from training.corpus import read_split
from training.data import Tokens

PASSAGE = 16  # tokens
LEARNED = 4  # leading tokens, not counted, by which the model can recognize the passage
DISTANCES = (0, 16, 64, 256)  # tokens between the two readings
TRIALS = 48  # per distance and language
BATCH = 8  # rows


class Trial(NamedTuple):
    """Two rows of equal length. In `other`, another passage replaces the first reading."""

    again: Tokens
    other: Tokens


def trials(text: Tokens, distance: int) -> list[Trial]:
    """Sample passages and the text between them from `text`, with a fixed seed."""
    draw = random.Random(distance)

    def piece(length: int) -> Tokens:
        start = draw.randrange(len(text) - length)
        return text[start : start + length]

    found = []
    for _ in range(TRIALS):
        passage, other, between = piece(PASSAGE), piece(PASSAGE), piece(distance)
        found.append(Trial(passage + between + passage, other + between + passage))
    return found


@torch.inference_mode()
def bits_of_the_end(model: PreTrainedModel, rows: list[Tokens]) -> float:
    """Return the mean bits of the last PASSAGE - LEARNED tokens of the rows."""
    count, total = PASSAGE - LEARNED, 0.0
    for first in range(0, len(rows), BATCH):
        ids = torch.tensor(rows[first : first + BATCH])  # [B, T]
        logits = model(input_ids=ids, use_cache=False, logits_to_keep=count + 1).logits[:, :-1].float()
        total -= float(logits.log_softmax(-1).gather(2, ids[:, -count:, None]).sum())
    return total / (len(rows) * count * math.log(2))


def remembered(model: PreTrainedModel, text: Tokens) -> dict[str, dict[str, float]]:
    """Return, per distance, bits per token of the second reading, those after another passage, and the difference."""
    found = {}
    for distance in DISTANCES:
        drawn = trials(text, distance)
        again, other = (bits_of_the_end(model, [getattr(t, name) for t in drawn]) for name in Trial._fields)
        found[str(distance)] = {"again": round(again, 3), "other": round(other, 3), "saved": round(other - again, 3)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with the corpora")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("models", nargs="+", choices=sorted(SHIPPED), metavar="MODEL")
    args = parser.parse_args()
    corpus = read_split(args.corpus, load_config(args.config)["data"])
    tokenizer = Tokenizer.from_file(str(SHIPPED["bundled"].tokenizer_folder / "tokenizer.json"))
    texts = {
        "chinese": [i for poem in corpus.heldout_poems for i in tokenizer.encode(poem.body).ids],
        "english": [i for book in corpus.heldout_books for text in book.documents for i in tokenizer.encode(text).ids],
    }
    found = {}
    for name in args.models:
        model = AutoModelForCausalLM.from_pretrained(SHIPPED[name].folder, dtype=torch.float32).eval()
        found[name] = {language: remembered(model, text) for language, text in texts.items()}
    written = json.dumps(found, indent=2)
    if args.out:
        args.out.write_text(written + "\n", encoding="utf-8")
    print(written)


if __name__ == "__main__":
    main()
