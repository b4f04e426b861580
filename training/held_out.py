"""Command line of measurements on held-out text with the paged engine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from training.config import load_config
from training.corpus import read_split
from training.data import Tokens
from training.evaluate import heldout_poems, heldout_prose

Measure = Callable[[LoadedModel, list[Tokens], int], dict[str, Any]]


def measure_held_out(description: str | None, measure: Measure) -> None:
    """Run `measure` on the documents and character count of each language, and write the results as JSON."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with the corpora")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="folder of the exported model")
    parser.add_argument("--documents", type=int, help="number of documents per language (default: all held-out ones)")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    args = parser.parse_args()
    config = load_config(args.config)
    corpus = read_split(args.corpus, config["data"])
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    model = load_model(str(args.model), dtype="float32", device="cpu")
    settings, limit = config["evaluate"], config["train"]["row_tokens"]
    texts = {
        "chinese": heldout_poems(corpus, tokenizer, settings["poems"], limit),
        "english": heldout_prose(corpus, tokenizer, settings["english_chars"] // 3, limit),
    }
    result = {}
    for language, held_out in texts.items():
        documents = held_out[: args.documents]
        characters = sum(len(tokenizer.decode(ids[1:])) for ids in documents)
        result[language] = measure(model, documents, characters)
    text = json.dumps(result, indent=2)
    args.out.write_text(text + "\n", encoding="utf-8")
    print(text)
