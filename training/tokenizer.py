"""Build the bundled tokenizer: one token per common Chinese character, BPE for English, bytes for other text.

The vocabulary, in order of id:

    0            <|endoftext|>                       end of a document, padding
    1..256       <0x00>..<0xFF>                      byte fallback
    then         ，。？！；：、                        full-width punctuation
    then         newline, tab, printable ASCII
    then         the most frequent Chinese characters
    then         English pieces, in the order in which BPE merged them

There is no normalization and no prefix, so decoding returns exactly the encoded text. A space is the first character of
the piece that follows it (" once"), not a marker.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import Counter
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from training.config import Section, load_config
from training.corpus import END_OF_TEXT, is_han, read_corpus

PUNCTUATION = "，。？！；：、"
ASCII = "\n\t" + "".join(chr(code) for code in range(32, 127))

# words include one leading space; digits are single tokens; the last of several spaces belongs to the next word
WORDS = r" ?[A-Za-z]+|'[a-z]+| ?[^\sA-Za-z0-9\p{Han}]+|[0-9]|\p{Han}|\s+(?=\s\S)|\s"


def english_merges(text: str, pieces: int, max_chars: int) -> list[tuple[str, str]]:
    """Learn `pieces` BPE merges of ASCII strings on `text`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = _pre_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=len(ASCII) + pieces,
        initial_alphabet=list(ASCII),
        limit_alphabet=len(ASCII),
        max_token_length=max_chars,
        show_progress=False,
    )
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    if len(merges) < pieces:
        raise ValueError(f"the English text yields {len(merges)} merges, but {pieces} are needed")
    return [(left, right) for left, right in merges[:pieces]]


def frequent_han(texts: list[str], count: int) -> list[str]:
    """Return the `count` most frequent Chinese characters, ties in the order of code points."""
    frequency: Counter[str] = Counter()
    for text in texts:
        frequency.update(text)
    han = [(number, char) for char, number in frequency.items() if is_han(char)]
    han.sort(key=lambda pair: (-pair[0], pair[1]))
    return [char for _, char in han[:count]]


def build_tokenizer(poetry: list[str], english: str, config: Section) -> Tokenizer:
    """Build a tokenizer with exactly `config["vocab_size"]` tokens from lines of poetry and English prose."""
    han = frequent_han(poetry, config["cjk_characters"])
    base = [END_OF_TEXT, *(f"<0x{byte:02X}>" for byte in range(256)), *PUNCTUATION, *ASCII, *han]
    merges = english_merges(english, config["vocab_size"] - len(base), config["max_piece_chars"])
    vocabulary = {token: index for index, token in enumerate(base)}
    for left, right in merges:
        # two merges may give the same piece, which then has an id already
        vocabulary.setdefault(left + right, len(vocabulary))
    if len(vocabulary) != config["vocab_size"]:
        raise ValueError(f"{len(vocabulary)} tokens instead of {config['vocab_size']}")
    # merges join pieces only, so text cannot produce byte names such as <0x0A>
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True, fuse_unk=False))
    tokenizer.pre_tokenizer = _pre_tokenizer()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(END_OF_TEXT, normalized=False, special=True)])
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, max_positions: int) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json` so that `AutoTokenizer` loads the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_TEXT,
        "pad_token": END_OF_TEXT,
        "add_bos_token": False,
        "add_eos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_positions,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    text = json.dumps(settings, indent=2, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")


def _pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(WORDS), behavior="isolated")


def main() -> None:
    """Build the tokenizer from a corpus folder and print statistics."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with the corpora")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for tokenizer.json")
    args = parser.parse_args()
    config = load_config(args.config)
    data = config["data"]
    poetry = list(
        itertools.chain.from_iterable(read_corpus(args.corpus / name).splitlines() for name in data["poetry_files"])
    )
    prose = read_corpus(args.corpus / data["english_file"]).replace(END_OF_TEXT + "\n", "")
    tokenizer = build_tokenizer(poetry, prose[: config["tokenizer"]["english_bytes"]], config["tokenizer"])
    save_tokenizer(tokenizer, args.out, config["model"]["max_positions"])
    bodies = [line.split("|", 3)[3] for line in poetry]
    han = sum(is_han(char) for body in bodies for char in body)
    known = set(tokenizer.get_vocab())
    broken = sum(is_han(char) and char not in known for body in bodies for char in body)
    sample = prose[:2_000_000]
    tokens = sum(len(code.ids) for code in tokenizer.encode_batch(sample.splitlines(keepends=True)))
    print(f"vocabulary {tokenizer.get_vocab_size()}, broken to bytes {broken / han:.4%} of {han} Chinese characters")
    print(f"English: {len(sample) / tokens:.3f} characters per token over the first {len(sample)} characters")


if __name__ == "__main__":
    main()
