"""Makes what the opening needs beside its recordings: `python -m tools.record_opening [LANGUAGE…]`.

For each `static/recordings/opening-LANGUAGE.kvtrace` (tools/record_shipped.py makes it):

- `static/opening/LANGUAGE-plain.kvtrace`: A again, alone and without a cache, for the race;
- `static/opening/LANGUAGE-fork-K.kvtrace`: A with the K-th likeliest word where the fan opens, for pages without a
  server and for servers of other models;
- `static/opening/LANGUAGE-futures.json`: how the text of each of them begins.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

from app.paths import static_dir
from app.recordings.shelf import SUFFIX
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.intake import RequestSpec
from engine.lab.change import TokenChange
from engine.lab.rerun import Rerun
from engine.model.capture import CaptureRequest
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.model.shipped import BUNDLED
from engine.trace.events import Choose
from engine.trace.log import TraceReader
from engine.trace.records import Candidate
from tools.record_shipped import RECORDINGS, Shipped, play

OPENINGS = {one.name.removeprefix("opening-"): one for one in RECORDINGS if one.name.startswith("opening-")}
_CLAUSE = re.compile("[，。？！；：、\n]")
FUTURE = 32  # steps of each fork
MOST_WORDS = 5  # as core/film.js shows
LEAST = 0.02


def folder() -> Path:
    """Where they lie."""
    return static_dir() / "opening"


def source(language: str) -> Path:
    """The opening's recording."""
    return static_dir() / "recordings" / f"opening-{language}{SUFFIX}"


def record_plain(model: LoadedModel, opening: Shipped, path: Path) -> None:
    """A alone, with nothing kept, as many steps as before B comes."""
    first, second = (wave for wave in opening.waves if wave.request_ids in (["A"], ["B"]))
    config = EngineConfig(
        block_size=opening.config["block_size"], num_blocks=opening.config["num_blocks"], strategy="none"
    )
    sampling = SamplingParams(**opening.sampling | {"max_tokens": second.after})
    with Engine(model, config, log_path=path) as engine:
        engine.add_requests([RequestSpec(first.prompts[0], sampling, "A")])
        play(engine, None)


def fan(log: TraceReader) -> tuple[int, int, list[Candidate]]:
    """The record in which A was least sure of its word before B came, A's id, and the words that it might have said.

    core/film.js has the same rule for the page; tests hold both to the same record.
    """
    end = log.state_at(len(log) - 1)
    a, b = (next(s for s in end.sequences.values() if s.request_id == name) for name in "AB")
    found: tuple[float, int, list[Candidate]] = (math.inf, -1, [])
    for index in range(b.submitted_in):
        for output in log.record(index).outputs:
            if output.seq_id == a.seq_id and output.top and output.top[0].logprob < found[0]:
                found = (output.top[0].logprob, index, output.top)
    return found[1], a.seq_id, [word for word in found[2][:MOST_WORDS] if math.exp(word.logprob) >= LEAST]


def record_fork(model: LoadedModel, opening: Shipped, log: TraceReader, k: int, path: Path) -> None:
    """A's other future with the k-th likeliest word."""
    assert opening.layer is not None
    index, seq_id, words = fan(log)
    capture = CaptureRequest(layers=[opening.layer], only=True, budget_bytes=opening.budget_bytes)
    change = TokenChange(seq_id=seq_id, token_id=words[k].token_id)
    with Engine(model, EngineConfig(**opening.config), log_path=path, capture=capture) as engine:
        Rerun(engine, log, index, change, follow=False).finish()
        play(engine, FUTURE)


def beginning_of(path: Path) -> str:
    """What A said in a fork after the word that was taken: to the end of the clause or line."""
    with TraceReader(path) as log:
        a = next(s for s in log.state_at(len(log) - 1).sequences.values() if s.request_id == "A")
        index, _, _ = fan_of_fork(log)
        text = b"".join(a.token_bytes[index + 1 :]).decode("utf-8", "ignore")
    return _CLAUSE.split(text, maxsplit=1)[0]


def fan_of_fork(log: TraceReader) -> tuple[int, int, int]:
    """Position, record and sequence of the word that was taken."""
    for index in range(len(log)):
        for op in log.record(index).ops:
            if isinstance(op, Choose):
                return op.position, index, op.seq_id
    raise ValueError("no word was taken in this run")


def main(names: list[str]) -> int:
    """Make those of the named languages, or all. Returns the exit status."""
    if unknown := set(names) - set(OPENINGS):
        print(f"there is no opening in {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    model = load_model(BUNDLED)
    folder().mkdir(exist_ok=True)
    for language in names or OPENINGS:
        for path in folder().glob(f"{language}-*{SUFFIX}"):
            path.unlink()
        opening = OPENINGS[language]
        record_plain(model, opening, folder() / f"{language}-plain{SUFFIX}")
        with TraceReader(source(language)) as log:
            forks = [folder() / f"{language}-fork-{k}{SUFFIX}" for k in range(len(fan(log)[2]))]
            for k, path in enumerate(forks):
                record_fork(model, opening, log, k, path)
        futures = json.dumps([beginning_of(path) for path in forks], ensure_ascii=False)
        (folder() / f"{language}-futures.json").write_text(futures + "\n", encoding="utf-8")
        for path in sorted(folder().glob(f"{language}-*{SUFFIX}")):
            print(f"{path.name}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
