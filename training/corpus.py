"""Reads the corpora and splits off the held-out poems and books.

Poetry has one poem per line, `体裁|标题|作者|正文`. English prose has one paragraph per line, documents separated by
`<|endoftext|>`, and a table of the offsets of books. Both are in a folder given on the command line. The English poems
to memorize are in this folder, one block per poem, whose first line is `# title | author | source`.
"""

from __future__ import annotations

import hashlib
import lzma
import re
from dataclasses import dataclass
from pathlib import Path

from training.config import Section

END_OF_TEXT = "<|endoftext|>"
CLAUSE_END = re.compile("[，。？！；：、]")


@dataclass(frozen=True, slots=True)
class Poem:
    """Poem. Chinese bodies are a single line with full-width punctuation."""

    genre: str
    title: str
    author: str
    body: str

    @property
    def clauses(self) -> list[str]:
        """Clauses of the body without punctuation."""
        return [clause for clause in CLAUSE_END.split(self.body) if clause]


@dataclass(frozen=True, slots=True)
class Book:
    """English book. `documents`: stories or chapters, with paragraphs joined by newlines."""

    number: str
    title: str
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The training part and the held-out part, which share no poem and no book."""

    poems: list[Poem]
    famous: list[Poem]
    famous_english: list[Poem]
    books: list[Book]
    heldout_poems: list[Poem]
    heldout_books: list[Book]


def is_han(char: str) -> bool:
    """Return whether `char` is a Chinese character: a unified ideograph, an extension or the ideographic zero."""
    code = ord(char)
    return 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF or 0x20000 <= code <= 0x3FFFF or char == "〇"


def read_corpus(path: Path) -> str:
    """Return the text of an xz-compressed UTF-8 file."""
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return file.read()


def read_poems(folder: Path, config: Section) -> list[Poem]:
    """Return all poems of the configured files in file order, without exact duplicates of a body."""
    poems: dict[str, Poem] = {}
    for name in config["poetry_files"]:
        for line in read_corpus(folder / name).splitlines():
            poem = Poem(*line.split("|", 3))
            if poem.body:
                poems.setdefault(poem.body, poem)
    return list(poems.values())


def read_books(folder: Path, config: Section) -> list[Book]:
    """Return the books that begin within the first `english_bytes` of the English file, simplest first."""
    raw = read_corpus(folder / config["english_file"]).encode("utf-8")
    books = []
    # the csv module would also split rows at carriage returns, which titles may contain
    header, *lines = (folder / config["english_books"]).read_bytes().decode("utf-8").rstrip("\n").split("\n")
    names = header.split("\t")
    for line in lines:
        row = dict(zip(names, line.split("\t"), strict=True))
        start = int(row["offset"])
        if start >= config["english_bytes"]:
            continue
        text = raw[start : start + int(row["bytes"])].decode("utf-8")
        documents = (part.strip("\n") for part in text.split(END_OF_TEXT))
        books.append(Book(row["gutenberg_id"], row["title"], tuple(part for part in documents if part)))
    return books


def read_english_poems(config: Section) -> list[Poem]:
    """Return the English poems of `[data.famous]`, the demonstration first. Bodies contain line breaks.

    Raises:
        ValueError: a block has no heading of three parts, or no poem begins with `english_first`.
    """
    poems = []
    for block in (Path(__file__).parent / config["english_file"]).read_text(encoding="utf-8").strip().split("\n\n"):
        heading, _, body = block.partition("\n")
        parts = heading.removeprefix("# ").split(" | ")
        if len(parts) != 3 or not body:
            raise ValueError(f"a poem must begin with a line `# title | author | source`, got: {heading}")
        poems.append(Poem("English", parts[0], parts[1], body))
    poems.sort(key=lambda poem: not poem.body.startswith(config["english_first"]))
    if not poems[0].body.startswith(config["english_first"]):
        raise ValueError(f"no English poem begins with {config['english_first']}")
    return poems


def hash_share(text: str, salt: str) -> float:
    """Hash `text` with `salt` to a number in [0, 1)."""
    digest = hashlib.sha256(f"{salt}\n{text}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def read_split(folder: Path, config: Section) -> Corpus:
    """Read the corpora and hold out complete poems and books by a hash, equally on every machine.

    The hash of a poem is that of its first clause, so that two editions of a poem are in the same part. A held-out poem
    that shares at least a quarter of its clauses with the training part is dropped.

    Raises:
        ValueError: fewer than `heldout_min_books` books are held out, or the demonstration poem is missing.
    """
    salt, openings = config["heldout_salt"], config["famous"]["openings"]
    poems: list[Poem] = []
    famous: list[Poem] = []
    heldout: list[Poem] = []
    for poem in read_poems(folder, config):
        if poem.body.startswith(tuple(openings)):
            famous.append(poem)
        elif hash_share(CLAUSE_END.split(poem.body)[0], salt) < config["heldout_poems"]:
            heldout.append(poem)
        else:
            poems.append(poem)
    first = [poem for poem in famous if poem.body.startswith(openings[0])]
    if not first:
        raise ValueError(f"no poem begins with {openings[0]}")
    famous.sort(key=lambda poem: not poem.body.startswith(openings[0]))
    seen = {clause for poem in [*poems, *famous] for clause in poem.clauses}
    heldout = [poem for poem in heldout if sum(c in seen for c in poem.clauses) < len(poem.clauses) / 4]
    books: list[Book] = []
    heldout_books: list[Book] = []
    for book in read_books(folder, config):
        chosen = hash_share(book.number, salt) < config["heldout_books"]
        (heldout_books if chosen else books).append(book)
    if len(heldout_books) < config["heldout_min_books"]:
        raise ValueError(f"only {len(heldout_books)} books are held out: raise heldout_books or change the salt")
    english = read_english_poems(config["famous"])
    return Corpus(poems, famous, english, books, heldout, heldout_books)
