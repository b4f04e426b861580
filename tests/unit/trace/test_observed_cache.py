"""Within a long log of a monitored server, contents beyond the limit are counted, and damage is found."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from engine.observe.monitor.observed_log import ObservedLog, header_of
from engine.observe.monitor.sequence import Break, Message
from engine.trace.derived_file import DerivedFileError
from engine.trace.log_index import content_rows
from engine.trace.log_index.log_index import LogIndex
from engine.trace.log_index.make import make
from tests.unit.monitor.publisher import message, removed, stored


def test_contents_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A query for a prompt must not treat them as never reported."""
    monkeypatch.setattr(content_rows, "MAX_CONTENTS", 2)
    header = header_of(model="m", source="vLLM", block_size=2, num_blocks=8, events=["tcp://a:1"])
    observed = ObservedLog(header, tmp_path / "seen.kvtrace")
    observed.receive(0, Break("attached", 0))
    events = [stored([b"a", b"b", b"c"], [1, 2, 3, 4, 5, 6], 2), removed([b"a"]), stored([b"a", b"d"], [1, 2, 7, 8], 2)]
    for number, event in enumerate(events):
        observed.receive(0, Message(number, message(event), False))
    make(observed.log, tmp_path / "a.survey")
    log_index = LogIndex(tmp_path / "a.survey", observed.log)
    observed_cache = log_index.observed_cache
    found = observed_cache.chains(0, [1, 2, 3, 4, 5, 6], 3)
    assert [(one.end, one.groups) for chain in found.chains for one in chain.links] == [(2, [0]), (4, [0])]
    assert (observed_cache.chains(0, [1, 2], 1).unkept, found.unkept) == (1, 2)  # c, and later c and d
    assert [observed_cache.chains(0, [1, 2], index).chains[0].links[0].groups for index in (1, 2, 3)] == [[0], [], [0]]
    report = observed_cache.report(observed.log, 0, 3)
    assert (report.stored, report.restored, report.families[0].count) == (5, 1, 4)
    log_index.index = replace(log_index.index, heard=[msgspec.Raw(b"\x01")])
    del log_index.observed_cache
    with pytest.raises(DerivedFileError, match="damaged"):
        assert log_index.observed_cache
    observed.log.close()
