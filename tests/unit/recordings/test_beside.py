"""Recordings of the same run by this engine and by vLLM, which have the same operations."""

from pathlib import Path

import msgspec

from app.ground.paths import static_dir
from app.recordings.shelf import Card
from engine.lab.beside import explicit_config, serve_here
from engine.model.loader import load_model
from engine.model.shipped import BUNDLED
from engine.trace.check import check
from engine.trace.compare import compare
from engine.trace.log import TraceReader
from tools.record_beside import CARDS, CONFIG, REQUESTS

FOLDER = static_dir() / "recordings"
OURS, THEIRS = (FOLDER / f"{name}.kvtrace" for name in CARDS)


def test_pairs_of_recordings_are_valid_and_described() -> None:
    for name, card in CARDS.items():
        assert list(check(FOLDER / f"{name}.kvtrace")) == []
        assert msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=Card) == card
    assert OURS.stat().st_size + THEIRS.stat().st_size < 300_000


def test_both_recordings_have_the_same_operations() -> None:
    """Blocks, hits, evictions, victims and tokens are equal. Names differ, and unreported values are missing."""
    with TraceReader(OURS) as one, TraceReader(THEIRS) as two:
        found = compare(one, two)
        assert two.header.watched is not None
    assert found.first_op is None and found.first_token is None and found.settings == []
    assert found.same_model
    assert found.unsaid.b == ["flops", "bytes_moved"] and found.unsaid.source_b == "vLLM 0.32.0"
    assert found.unsaid.a == []
    for totals in (found.a.totals, found.b.totals):
        assert min(totals.preemptions, totals.evictions, totals.hit_tokens) > 0


def test_the_shipped_recording_is_reproducible(tmp_path: Path) -> None:
    model, path = load_model(BUNDLED), tmp_path / "again.kvtrace"
    requests = [msgspec.structs.replace(one, ignore_eos=True) for one in REQUESTS]
    serve_here(model, explicit_config(CONFIG, model), requests, path)
    with TraceReader(OURS) as shipped, TraceReader(path) as repeated:
        found = compare(shipped, repeated)
        assert len(shipped) == len(repeated)
    assert found.first_op is None and found.first_token is None
