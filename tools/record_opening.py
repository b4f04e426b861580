"""Record the further runs of the opening: `python -m tools.record_opening [LANGUAGE…]`.

For each `static/recordings/opening-LANGUAGE.kvtrace` (from tools/record_shipped.py) it writes:

- `static/opening/LANGUAGE-plain.kvtrace`: request A without other requests and without a cache, for the race;
- `static/opening/LANGUAGE-fork-K.kvtrace`: request A with the K-th likeliest word at the fork, for pages without a
  server and for servers of other models;
- `static/opening/LANGUAGE-futures.json`: the beginning of the text of each fork.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

from app.ground.paths import static_dir
from app.recordings.shelf import SUFFIX
from app.site.runs import IN_FAN, Future, fan, play, record_future
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loaded import LoadedModel
from engine.model.loader import load_model
from engine.model.shipped import BUNDLED
from engine.requests.request_spec import RequestSpec
from engine.trace.log import TraceReader
from tools.record_shipped import RECORDINGS, Shipped

OPENINGS = {one.name.removeprefix("opening-"): one for one in RECORDINGS if one.name.startswith("opening-")}
_CLAUSE = re.compile("[，。？！；：、\n]")
FUTURE = 32  # number of steps of each fork
MIN_PROBABILITY = 0.02  # of an alternative word


def folder() -> Path:
    return static_dir() / "opening"


def source(language: str) -> Path:
    return static_dir() / "recordings" / f"opening-{language}{SUFFIX}"


def record_plain(model: LoadedModel, opening: Shipped, path: Path) -> None:
    """Record request A alone, without a cache, with as many tokens as before B arrives."""
    first, second = (wave for wave in opening.waves if wave.request_ids in (["A"], ["B"]))
    config = EngineConfig(
        block_size=opening.config["block_size"], num_blocks=opening.config["num_blocks"], strategy="none"
    )
    sampling = SamplingParams(**opening.sampling | {"max_tokens": second.after})
    with Engine(model, config, log_path=path) as engine:
        engine.add_requests([RequestSpec(first.prompts[0], sampling, "A")])
        play(engine, None)


def words(log: TraceReader) -> list[Future]:
    """Return the alternative words of A at the fork, in the order of core/film.js."""
    index, output = fan(log)
    listed = [word for word in output.top[:IN_FAN] if math.exp(word.logprob) >= MIN_PROBABILITY]
    return [Future(of="", record=index, seq=output.seq_id, token_id=word.token_id, id="") for word in listed]


def beginning_of(path: Path, position: int) -> str:
    """Return A's text in a fork from the word after `position` to the end of the clause or line."""
    with TraceReader(path) as log:
        a = next(s for s in log.state_at(len(log) - 1).sequences.values() if s.request_id == "A")
    return _CLAUSE.split(b"".join(a.token_bytes[position + 1 :]).decode("utf-8", "ignore"), maxsplit=1)[0]


def main(names: list[str]) -> int:
    """Record the openings of the named languages, or all. Returns the exit status."""
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
            found = words(log)
            position = len(log.state_at(found[0].record - 1).sequences[found[0].seq].token_ids)
            forks = [folder() / f"{language}-fork-{k}{SUFFIX}" for k in range(len(found))]
            for future, path in zip(found, forks, strict=True):
                record_future(model, log, future, FUTURE, path)
        futures = json.dumps([beginning_of(path, position) for path in forks], ensure_ascii=False)
        (folder() / f"{language}-futures.json").write_text(futures + "\n", encoding="utf-8")
        for path in sorted(folder().glob(f"{language}-*{SUFFIX}")):
            print(f"{path.name}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
