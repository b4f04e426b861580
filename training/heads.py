"""Find the attention heads that show a pattern for a lesson, and write them to the model's folder.

    python -m training.heads --corpus FOLDER --config training/bundled.toml --model FOLDER

The score of a head for a pattern is the mean attention weight of the pattern's key, over held-out poems of regular form
(all clauses have five or all have seven characters) and, for `induction`, over a repeated random sequence. `uniform` is
the same mean for uniform attention. Writes `FOLDER/heads.json`: the best layer and head for each pattern, and the
pattern on which the page opens.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from training.config import load_config
from training.corpus import Corpus, Poem, is_han, read_split
from training.data import Tokens

HEADS = "heads.json"
POEMS = 200
REPEATED = 48  # tokens of the repeated random sequence
# patterns on which the page may open, in order of preference, with their minimum weight
OPENINGS = (("parallel_clause", 0.35), ("previous_token", 0.35), ("clause_start", 0.35))
TITLES = {
    "previous_token": "the token before",
    "clause_start": "the first character of the clause",
    "parallel_clause": "the same place in the clause before",
    "last_punctuation": "the last punctuation mark",
    "first_token": "the first token of the text",
    "itself": "the token itself",
    "induction": "what followed this token the last time (a random sequence told twice)",
}


def regular(poem: Poem) -> int | None:
    """Return the length of a clause if all clauses of the poem have five or all have seven Chinese characters."""
    lengths = {len(clause) for clause in poem.clauses}
    plain = all(is_han(char) for clause in poem.clauses for char in clause)
    return lengths.pop() if plain and len(poem.clauses) >= 4 and lengths in ({5}, {7}) else None


def named_keys(clause: int, count: int) -> Iterator[tuple[str, int, int]]:
    """Yield (pattern, query, key) in a poem of `count` tokens whose clauses have `clause` characters and a mark.

    Queries for which two patterns have the same key are excluded.
    """
    period = clause + 1
    for query in range(period, count):
        start = query - query % period
        place = query - start
        yield "previous_token", query, query - 1
        yield "itself", query, query
        if place >= 2:
            yield "first_token", query, 0
            yield "last_punctuation", query, start - 1
            yield "clause_start", query, start
        if query - period >= 1:
            yield "parallel_clause", query, query - period


@torch.inference_mode()
def weights_of(model: LlamaForCausalLM, ids: Tokens) -> torch.Tensor:
    """Return the attention weights [layers, heads, n, n] of a text."""
    found = model(input_ids=torch.tensor([ids]), use_cache=False, output_attentions=True).attentions
    return torch.stack([layer[0] for layer in found])


def scores(model: LlamaForCausalLM, texts: list[tuple[int, Tokens]], vocabulary: int) -> dict[str, dict[str, Any]]:
    """Return, per pattern, the mean weight of each head [layers, heads], the number of queries and the uniform mean."""
    sums: dict[str, torch.Tensor] = {}
    uniform: dict[str, float] = {}
    count: dict[str, int] = {}

    def add(pattern: str, weights: torch.Tensor, query: int, key: int) -> None:
        sums[pattern] = sums.get(pattern, torch.zeros(weights.shape[:2])) + weights[:, :, query, key]
        uniform[pattern] = uniform.get(pattern, 0.0) + 1 / (query + 1)
        count[pattern] = count.get(pattern, 0) + 1

    for clause, ids in texts:
        weights = weights_of(model, ids)
        for pattern, query, key in named_keys(clause, len(ids)):
            add(pattern, weights, query, key)
    rng = random.Random(0)
    for _ in range(8):
        once = [rng.randrange(vocabulary // 2) for _ in range(REPEATED)]
        weights = weights_of(model, once + once)
        for query in range(REPEATED, 2 * REPEATED - 1):
            add("induction", weights, query, query - REPEATED + 1)
    return {
        pattern: {"weights": sums[pattern] / n, "uniform": uniform[pattern] / n, "queries": n}
        for pattern, n in count.items()
    }


def best_heads(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return, per pattern, the head with the largest mean weight, and the pattern on which the page opens."""
    patterns = []
    for pattern, score in found.items():
        weights: torch.Tensor = score["weights"]  # [layers, heads]
        layer, head = divmod(int(weights.argmax()), weights.shape[1])
        patterns.append(
            {
                "pattern": pattern,
                "layer": layer,
                "head": head,
                "mean_weight": round(float(weights[layer, head]), 4),
                "uniform": round(score["uniform"], 4),
                "queries": score["queries"],
            }
        )
    by_name = {entry["pattern"]: entry for entry in patterns}
    chosen = next(
        (by_name[name] for name, minimum in OPENINGS if by_name[name]["mean_weight"] >= minimum),
        by_name["previous_token"],
    )
    return {"opening": chosen["pattern"], "patterns": patterns}


def measure(folder: Path, corpus: Corpus) -> dict[str, Any]:
    """Measure the heads of the model in `folder`, in float32."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    poems = [(length, poem) for poem in corpus.heldout_poems if (length := regular(poem))]
    chosen = random.Random(0).sample(poems, min(POEMS, len(poems)))
    texts = [(length, tokenizer.encode(poem.body).ids) for length, poem in chosen]
    texts = [(length, ids) for length, ids in texts if len(ids) % (length + 1) == 0]  # all characters are single tokens
    return best_heads(scores(model, texts, tokenizer.get_vocab_size()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with the corpora")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="folder of the exported model")
    args = parser.parse_args()
    result = measure(args.model, read_split(args.corpus, load_config(args.config)["data"]))
    text = json.dumps(result, indent=2)
    (args.model / HEADS).write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
