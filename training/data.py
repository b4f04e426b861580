"""Batches of documents: encoding, the mix of a run, and packing into rows.

A document is the body of a poem, a Chinese poem with a header line, or a piece of a story. The header line is

    标题：春江花月夜，作者：张若虚

followed by a newline and the body. `<|endoftext|>` ends every document. There is no begin token, so a prompt looks like
the beginning of a document. Documents in the same row do not attend to each other (`Batch.mask`).
"""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer

from training.config import Section
from training.corpus import END_OF_TEXT, Corpus, Poem

Tokens = list[int]

IGNORED = -100  # target that torch's cross entropy ignores
WINDOW = 256  # number of documents that packing chooses from
SHORTEST_CUT = 24  # a shorter gap at the end of a row is padded instead of filled with a truncated document
SENTENCE = re.compile(r"(?<=[。？！；\n])")


@dataclass(frozen=True, slots=True)
class Batch:
    """Batch of `B` rows of `T` tokens."""

    ids: torch.Tensor  # [B, T] int64
    targets: torch.Tensor  # [B, T] int64, the next token within the document or IGNORED
    positions: torch.Tensor  # [B, T] int64, from the start of the document
    mask: torch.Tensor  # [B, 1, T, T] bool, True where a query may attend to a key


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """Return the id of `token`. Raises ValueError: the vocabulary lacks it."""
    found: int | None = tokenizer.token_to_id(token)
    if found is None:
        raise ValueError(f"the tokenizer has no token {token}")
    return found


def with_header(poem: Poem) -> str:
    return f"标题：{poem.title}，作者：{poem.author}\n{poem.body}"


def pieces(text: str, tokenizer: Tokenizer, limit: int) -> list[Tokens]:
    """Encode a document as pieces of at most `limit` tokens. The last piece ends with `<|endoftext|>`.

    A piece ends at the end of a line or of a Chinese sentence.
    """
    end = token_id(tokenizer, END_OF_TEXT)
    found: list[Tokens] = [[]]
    units = [text] if len(text) < limit else [unit for unit in SENTENCE.split(text) if unit]
    encoded: list[Tokens] = [code.ids for code in tokenizer.encode_batch(units)]
    for ids in [*encoded, [end]]:
        if found[-1] and len(found[-1]) + len(ids) > limit:
            found.append([])
        found[-1].extend(ids)
        while len(found[-1]) > limit:  # the sentence is longer than a row
            found.append(found[-1][limit:])
            del found[-2][limit:]
    return [piece for piece in found if len(piece) > 1]


@dataclass(frozen=True, slots=True)
class Documents:
    """The encoded training documents before mixing."""

    poems: list[tuple[list[Tokens], list[Tokens]]]  # pieces of each poem, without and with header line
    famous: list[tuple[list[Tokens], list[Tokens]]]  # the same; the demonstration is first
    famous_english: list[list[Tokens]]  # pieces of each poem; the English demonstration is first
    english: list[Tokens]


def encode_corpus(corpus: Corpus, tokenizer: Tokenizer, limit: int) -> Documents:
    """Encode the training part of the corpus as pieces of at most `limit` tokens."""

    def both(poem: Poem) -> tuple[list[Tokens], list[Tokens]]:
        return pieces(poem.body, tokenizer, limit), pieces(with_header(poem), tokenizer, limit)

    english = [piece for book in corpus.books for text in book.documents for piece in pieces(text, tokenizer, limit)]
    return Documents(
        [both(poem) for poem in corpus.poems],
        [both(poem) for poem in corpus.famous],
        [pieces(poem.body, tokenizer, limit) for poem in corpus.famous_english],
        english,
    )


def mix(documents: Documents, config: Section, total_tokens: int, seed: int, share: float = 1.0) -> list[Tokens]:
    """Return the documents of `total_tokens` tokens in training order, which depends only on the arguments.

    English stories have `english_share` of the tokens and poetry the rest, both in shuffled epochs. The copies of
    famous poems are spread evenly. `share`: part of the run, which gets that share of the copies.
    """
    rng = random.Random(seed)

    def choose(poem: tuple[list[Tokens], list[Tokens]]) -> list[Tokens]:
        return poem[1] if rng.random() < config["header_share"] else poem[0]

    def copies(index: int) -> range:
        return range(round(config["famous"]["repeat_first" if index == 0 else "repeat"] * share))

    famous: list[Tokens] = []
    for index, poem in enumerate(documents.famous):
        for _ in copies(index):
            famous.extend(choose(poem))
    for index, found in enumerate(documents.famous_english):
        for _ in copies(index):
            famous.extend(found)
    english_budget = config["english_share"] * total_tokens
    poetry_budget = total_tokens - english_budget - sum(map(len, famous))
    budgets: list[tuple[float, Callable[[], list[Tokens]]]] = [
        (poetry_budget, lambda: [piece for poem in documents.poems for piece in choose(poem)]),
        (english_budget, lambda: list(documents.english)),
    ]
    placed: list[tuple[float, Tokens]] = []
    for budget, epoch in budgets:
        stream: list[Tokens] = []
        used = 0
        while used < budget:
            docs = epoch()
            rng.shuffle(docs)
            for doc in docs:
                stream.append(doc)
                used += len(doc)
                if used >= budget:
                    break
        placed.extend(((index + rng.random()) / len(stream), doc) for index, doc in enumerate(stream))
    placed.extend((rng.random(), doc) for doc in famous)
    placed.sort(key=lambda pair: pair[0])
    return [doc for _, doc in placed]


def rows(stream: list[Tokens], length: int) -> Iterator[list[Tokens]]:
    """Pack documents, each at most `length` tokens, into rows of exactly `length` tokens.

    A row begins with the oldest waiting document and is filled with the oldest ones that fit. The last gap gets the
    beginning of a document, or padding if it is short. The stream repeats when it is exhausted.
    """
    waiting: deque[Tokens] = deque()
    cursor = 0
    while True:
        row, room = [], length
        while room:
            while len(waiting) < WINDOW:
                waiting.append(stream[cursor % len(stream)])
                cursor += 1
            fits = next((index for index, doc in enumerate(waiting) if len(doc) <= room), None)
            if fits is None:
                if room >= SHORTEST_CUT:
                    row.append(waiting[0][:room])  # the complete document remains for a later row
                break
            row.append(waiting[fits])
            room -= len(waiting[fits])
            del waiting[fits]
        yield row


def collate(batch: list[list[Tokens]], length: int, pad: int) -> Batch:
    """Convert rows of documents to tensors. `pad`: token id that fills a row."""
    ids = torch.full((len(batch), length), pad)
    targets = torch.full_like(ids, IGNORED)
    positions = torch.zeros_like(ids)
    owner = torch.full_like(ids, -1)  # index of a token's document in the row
    for index, row in enumerate(batch):
        start = 0
        for number, doc in enumerate(row):
            stop = start + len(doc)
            ids[index, start:stop] = torch.tensor(doc)
            targets[index, start : stop - 1] = ids[index, start + 1 : stop]
            positions[index, start:stop] = torch.arange(len(doc))
            owner[index, start:stop] = number
            start = stop
    same = owner[:, :, None] == owner[:, None, :]  # [B, T, T]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    return Batch(ids, targets, positions, (same & causal)[:, None])


def batches(stream: list[Tokens], length: int, count: int, pad: int) -> Iterator[Batch]:
    """Yield endless batches of `count` rows of `length` tokens."""
    packed = rows(stream, length)
    while True:
        yield collate([next(packed) for _ in range(count)], length, pad)
