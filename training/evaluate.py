"""Measure a trained model on held-out text and write the results as JSON.

    python -m training.evaluate --corpus FOLDER --config training/bundled.toml --model FOLDER --out FILE.json

Bits per character = negative log-likelihood in bits / characters, over complete held-out poems (body only) and complete
pieces of held-out stories. The end-of-text token is scored but has no characters. The first token of a document has no
prediction, because there is no BOS token; its characters are excluded.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import random
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import AutoModelForCausalLM, PreTrainedModel

from training.config import Section, load_config
from training.corpus import CLAUSE_END, END_OF_TEXT, Corpus, is_han, read_split
from training.data import Tokens, encode_corpus, pieces, token_id
from training.ngram import NGram
from training.prosody import prosody, shuffled

PROMPTS = (
    "春江潮水连海平，海上明月共潮生。",
    "床前明月光，",
    "春风又绿江南岸，",
    "明月松间照，清泉石上流。",
    "标题：秋夜，作者：李白\n",
    "Once upon a time, there was",
    "The little rabbit looked at the moon and said,",
    "Who has seen the wind?\n",
    "Tyger Tyger, burning bright,\n",
)
SAMPLED_TOKENS = 48
GREEDY_TOKENS = 64
ORDER = 5  # order of the n-gram baseline


@torch.inference_mode()
def bits(model: PreTrainedModel, documents: list[Tokens]) -> float:
    """Return the summed negative log-likelihood, in bits, of all tokens but the first of each document."""
    total = 0.0
    for ids in documents:
        tokens = torch.tensor([ids])
        logits = model(input_ids=tokens[:, :-1], use_cache=False).logits.float()  # [1, n-1, vocabulary]
        total += float(functional.cross_entropy(logits[0], tokens[0, 1:], reduction="sum"))
    return total / math.log(2)


def bits_per_character(
    model: PreTrainedModel, baseline: NGram | None, tokenizer: Tokenizer, documents: list[Tokens]
) -> dict[str, Any]:
    """Return bits per character over encoded documents, with two baselines.

    `xz -9e` compresses the same text. `baseline`, fitted to the training text, scores the same tokens.
    """
    characters = sum(len(tokenizer.decode(ids[1:])) for ids in documents)  # the end-of-text token decodes to ""
    text = "\n".join(tokenizer.decode(ids) for ids in documents)
    packed = len(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    return {
        "documents": len(documents),
        "tokens": sum(map(len, documents)),
        "characters": characters,
        "bits_per_character": bits(model, documents) / characters,
        "xz_bits_per_character": packed * 8 / len(text),
        "ngram_bits_per_character": baseline.bits(documents) / characters if baseline else None,
    }


def heldout_poems(corpus: Corpus, tokenizer: Tokenizer, count: int, limit: int) -> list[Tokens]:
    """Return `count` held-out poems that fit into one piece, sampled with a fixed seed."""
    encoded = [pieces(poem.body, tokenizer, limit) for poem in corpus.heldout_poems]
    whole = [found[0] for found in encoded if len(found) == 1]
    return random.Random(0).sample(whole, min(count, len(whole)))


def heldout_prose(corpus: Corpus, tokenizer: Tokenizer, characters: int, limit: int) -> list[Tokens]:
    """Return pieces of held-out books with about `characters` characters, sampled with a fixed seed."""
    found = [p for book in corpus.heldout_books for text in book.documents for p in pieces(text, tokenizer, limit)]
    random.Random(0).shuffle(found)
    chosen, total = [], 0
    for piece in found:
        if total >= characters:
            break
        chosen.append(piece)
        total += len(tokenizer.decode(piece))
    return chosen


@torch.inference_mode()
def continuation(model: PreTrainedModel, ids: Tokens, count: int, sample: bool, seed: int = 0) -> Tokens:
    """Return up to `count` tokens after `ids`: sampled at temperature 0.8 and top-k 40, or greedy."""
    torch.manual_seed(seed)
    settings: dict[str, Any] = {"do_sample": True, "temperature": 0.8, "top_k": 40} if sample else {"do_sample": False}
    tokens = torch.tensor([ids])
    generated = model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=count, **settings)
    return [int(token) for token in generated[0, len(ids) :]]


def seven_character_form(model: PreTrainedModel, tokenizer: Tokenizer, corpus: Corpus, count: int) -> dict[str, Any]:
    """Measure how often the three clauses after a held-out seven-character opening have seven characters each.

    `couplets`: share of openings whose next clause has seven characters. `prosody`: rhyme and tones of regular
    generated quatrains, of the held-out poems, and of the held-out poems with shuffled characters.
    """
    poems = [
        poem
        for poem in corpus.heldout_poems
        if len(poem.clauses) >= 4 and all(len(clause) == 7 and all(map(is_han, clause)) for clause in poem.clauses)
    ]
    poems = random.Random(0).sample(poems, min(count, len(poems)))
    real = [poem.clauses[:4] for poem in poems]
    result: dict[str, Any] = {
        "openings": len(poems),
        "prosody": {"real": prosody(real), "shuffled": prosody(shuffled(real))},
    }
    for name, sample in (("greedy", False), ("sampled", True)):
        num_regular = couplets = 0
        regular = []
        for seed, poem in enumerate(poems):
            opening = poem.body[:8]
            text = tokenizer.decode(continuation(model, tokenizer.encode(opening).ids, 24, sample, seed))
            clauses = CLAUSE_END.split(text)[:3]
            fits = [len(clause) == 7 and all(map(is_han, clause)) for clause in clauses]
            num_regular += sum(fits)
            couplets += fits[0]
            if fits == [True] * 3:
                regular.append([opening[:7], *clauses])
        result[name] = num_regular / (3 * len(poems))
        result[f"{name}_couplets"] = couplets / len(poems)
        if regular:
            result["prosody"][name] = prosody(regular)
    return result


def beginning(body: str) -> str:
    """Return the first sentence of a poem, or the first line of an English poem."""
    end = "。" if "。" in body else "\n"
    return body[: body.index(end) + 1]


def recited(model: PreTrainedModel, tokenizer: Tokenizer, body: str) -> int:
    """Return how many characters of `body` the model recites greedily after its `beginning` before the first error."""
    prompt = beginning(body)
    ids = tokenizer.encode(prompt).ids
    length = len(tokenizer.encode(body).ids)
    text = tokenizer.decode(continuation(model, ids, length - len(ids), sample=False))
    rest = body[len(prompt) :]
    return next(
        (i for i, (generated, true) in enumerate(zip(text, rest, strict=False)) if generated != true), len(text)
    )


def recites_whole(model: PreTrainedModel, tokenizer: Tokenizer, body: str) -> bool:
    """Return whether the model recites the complete poem without an error."""
    return recited(model, tokenizer, body) == len(body) - len(beginning(body))


def fitted_baseline(corpus: Corpus, tokenizer: Tokenizer, limit: int) -> NGram:
    """Return a 5-gram model fitted to the training documents, each once."""
    documents = encode_corpus(corpus, tokenizer, limit)
    found = [piece for poem in (*documents.poems, *documents.famous) for piece in poem[0]]
    found += [piece for poem in documents.famous_english for piece in poem]
    end = token_id(tokenizer, END_OF_TEXT)
    return NGram([*found, *documents.english], tokenizer.get_vocab_size(), end, ORDER)


def heldout_bits(
    model: PreTrainedModel, baseline: NGram | None, tokenizer: Tokenizer, corpus: Corpus, config: Section, limit: int
) -> dict[str, Any]:
    """Return the bits per character of held-out poems and prose."""
    poems = heldout_poems(corpus, tokenizer, config["poems"], limit)
    prose = heldout_prose(corpus, tokenizer, config["english_chars"], limit)
    return {
        "chinese": bits_per_character(model, baseline, tokenizer, poems),
        "english": bits_per_character(model, baseline, tokenizer, prose),
    }


def evaluate(folder: Path, corpus: Corpus, config: Section, limit: int) -> dict[str, Any]:
    """Return all figures and samples of the model card for the model in `folder`, computed in float32."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    baseline = fitted_baseline(corpus, tokenizer, limit)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    demonstration = corpus.famous[0].body
    samples = []
    for prompt in PROMPTS:
        ids = tokenizer.encode(prompt).ids
        samples.append(
            {
                "prompt": prompt,
                "greedy": tokenizer.decode(continuation(model, ids, GREEDY_TOKENS, False), skip_special_tokens=False),
                "sampled": tokenizer.decode(continuation(model, ids, SAMPLED_TOKENS, True), skip_special_tokens=False),
            }
        )
    return {
        **heldout_bits(model, baseline, tokenizer, corpus, config, limit),
        "heldout_books": [book.title for book in corpus.heldout_books],
        "heldout_poems": len(corpus.heldout_poems),
        "seven_character_clauses": seven_character_form(model, tokenizer, corpus, config["clause_prompts"]),
        "recited_characters": recited(model, tokenizer, demonstration),
        "demonstration_characters": len(demonstration) - demonstration.index("。") - 1,
        "famous_recited_whole": sum(
            recites_whole(model, tokenizer, poem.body)
            for poem in corpus.famous
            if "。" in poem.body and len(poem.body) <= limit
        ),
        "famous": sum("。" in poem.body and len(poem.body) <= limit for poem in corpus.famous),
        "english_poems": [
            {"title": poem.title, "author": poem.author, "whole": recites_whole(model, tokenizer, poem.body)}
            for poem in corpus.famous_english
        ],
        "samples": samples,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with the corpora")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--sibling", metavar="NAME", help="evaluate this sibling instead of the bundled model")
    parser.add_argument("--model", type=Path, required=True, help="folder of the exported model")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--bits-only", action="store_true", help="only bits per character, without the baselines")
    args = parser.parse_args()
    config = load_config(args.config, args.sibling)
    corpus = read_split(args.corpus, config["data"])
    settings, limit = config["evaluate"], config["train"]["row_tokens"]
    if args.bits_only:
        tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
        model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
        result = heldout_bits(model, None, tokenizer, corpus, settings, limit)
    else:
        result = evaluate(args.model, corpus, settings, limit)
    text = json.dumps(result, indent=2, ensure_ascii=False)
    args.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
