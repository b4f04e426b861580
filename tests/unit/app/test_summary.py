"""A trace's summary counts requests from the last state."""

from pathlib import Path

from msgspec.structs import replace

from app.ground.paths import static_dir
from app.session.summary import MAX_BLOCKS, summarize
from engine.trace.log import TraceReader, TraceWriter
from engine.trace.records import Header

PREEMPTION = static_dir() / "recordings" / "preemption.kvtrace"  # three requests
SAMPLES = static_dir() / "recordings" / "samples.kvtrace"  # one request with several samples


def with_header(path: Path, change: dict[str, int]) -> Path:
    """Write the first record of a recording under other settings to `path`."""
    with TraceReader(PREEMPTION) as reader:
        header: Header = replace(reader.header, engine={**reader.header.engine, **change})
        with TraceWriter(header, path) as log:
            log.append(reader.record(0))
    return path


def test_requests_are_counted_instead_of_sequences() -> None:
    assert summarize(PREEMPTION).num_requests == 3
    assert summarize(SAMPLES).num_requests == 1


def test_a_log_with_a_large_pool_is_not_read_for_its_summary(tmp_path: Path) -> None:
    assert summarize(with_header(tmp_path / "small.kvtrace", {"num_blocks": 64})).num_requests == 3
    assert summarize(with_header(tmp_path / "large.kvtrace", {"num_blocks": MAX_BLOCKS + 1})).num_requests is None
