"""The prefix tree of a log index has the cached contents of the log's state below their predecessors."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from engine.observe.monitor.observed_log import ObservedLog, header_of
from engine.observe.monitor.sequence import Break, Message
from engine.trace.derived_file import DerivedFileError
from engine.trace.geometry import geometry
from engine.trace.log import TraceReader
from engine.trace.log_index.log_index import LogIndex
from engine.trace.log_index.make import make
from engine.trace.log_index.prefixes import Prefixes, prefixes
from engine.trace.operations import Cache, Stored
from tests.load.large_log import Shape, write
from tests.unit.monitor.publisher import message, stored

GOLDEN = sorted((Path(__file__).parents[2] / "golden").glob("*.kvtrace"))
ALL = 1 << 20


@pytest.fixture(scope="module")
def pressed_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prefixes") / "pressed.kvtrace"
    write(path, Shape(blocks=300, requests=40, steps=300))
    return path


def indexed(log: TraceReader, folder: Path) -> LogIndex:
    make(log, folder / "a.survey")
    return LogIndex(folder / "a.survey", log)


def sums(found: Prefixes) -> tuple[int, int]:
    """Return the numbers of contents and tokens below the roots, after checking the sums of each branch."""
    for place, branch in enumerate(found.branches):
        below = [one for one in found.branches if one.parent == place]
        assert all(one.level == branch.level + 1 for one in below) and branch.num_more == 0
        blocks = 0 if branch.standing == "gone" else branch.blocks
        assert branch.all_blocks == blocks + sum(one.all_blocks for one in below)
        assert branch.used_in >= max((one.used_in for one in below), default=-1)
        assert branch.held <= branch.all_blocks and (branch.held > 0 or branch.standing != "held")
        assert branch.parent < place
    roots = [one for one in found.branches if one.parent < 0]
    return sum(one.all_blocks for one in roots), sum(one.all_tokens for one in roots)


@pytest.mark.parametrize("path", [*GOLDEN, None], ids=lambda path: path.stem if path else "pressed")
def test_every_cached_content_is_in_the_tree_once(path: Path | None, pressed_log: Path, tmp_path: Path) -> None:
    with TraceReader(path or pressed_log) as log:
        log_index, tokens = indexed(log, tmp_path), dict[bytes, int]()
        groups = geometry(log.header)[1]
        step = max(1, len(log) // 25)
        for index in range(len(log)):
            for op in log.record(index).ops:
                if isinstance(op, Cache | Stored):
                    tokens[op.block_hash] = len(op.token_ids) or tokens.get(op.block_hash, 0)
        for record in range(0, len(log), step):
            state = log.state_at(record)
            for instance in {group.instance for group in groups}:
                own_groups = [group for group in groups if group.instance == instance]
                first, end = own_groups[0].first_block, own_groups[-1].first_block + own_groups[-1].num_blocks
                hashes = {b.block_hash for b in state.blocks[first:end] if b.block_hash is not None}
                found = prefixes(log_index, record, ALL, first, end)
                assert sums(found) == (len(hashes), sum(tokens[one] for one in hashes))
                assert (found.blocks, found.unnamed, found.num_more) == (len(hashes), 0, 0)


def test_the_largest_branches_are_listed_and_others_counted(tmp_path: Path) -> None:
    path = tmp_path / "roomy.kvtrace"
    write(path, Shape(blocks=4000, requests=80, steps=150, bursts=0))
    with TraceReader(path) as log:
        log_index = indexed(log, tmp_path)
        record = len(log) - 20
        complete, limited = prefixes(log_index, record, ALL), prefixes(log_index, record, 10)
        assert len(complete.branches) > 20 and len(limited.branches) == 10
        assert (limited.blocks, limited.tokens) == (complete.blocks, complete.tokens)
        others = [one.all_tokens for one in complete.branches if one.id not in {other.id for other in limited.branches}]
        assert min(one.all_tokens for one in limited.branches) >= max(others)
        hidden = limited.num_more + sum(one.num_more for one in limited.branches)
        assert 0 < hidden <= len(complete.branches) - 10
        assert any(one.standing == "held" for one in complete.branches)
        assert any(one.level > 1 for one in complete.branches)


def test_parents_of_a_monitored_server_may_be_reported_later(tmp_path: Path) -> None:
    header = header_of(model="m", source="vLLM", block_size=2, num_blocks=8, events=["tcp://a:1"])
    observed = ObservedLog(header, tmp_path / "seen.kvtrace")
    observed.receive(0, Break("attached", 7))
    spans = [
        stored([b"c"], [5, 6], 2, b"b"),  # b was stored before monitoring began
        stored([b"d"], [7, 8], 2, b"c"),
        stored([b"x", b"z"], [1] * 6, 2),  # two of three blocks
        stored([b"a", b"b"], [1, 2, 3, 4], 2),
    ]
    for number, event in enumerate(spans, 7):
        observed.receive(0, Message(number, message(event), False))
    log_index = indexed(observed.log, tmp_path)
    early = prefixes(log_index, 3, ALL)
    # parents of the complete log apply at each record: c follows b, which is stored later
    assert [(one.begins, one.standing, one.all_blocks) for one in early.branches if one.parent < 0] == [
        (True, "gone", 2),
        (False, "reusable", 1),
        (False, "reusable", 1),
    ]
    complete, *others = prefixes(log_index, 4, ALL).branches
    assert (complete.begins, complete.blocks, complete.tokens, complete.token_ids) == (True, 4, 8, [1, 2])
    assert [one.begins for one in others] == [False, False]
    observed.log.close()


def test_a_cycle_of_hashes_is_broken(tmp_path: Path) -> None:
    header = header_of(model="m", source="vLLM", block_size=1, num_blocks=8, events=["tcp://a:1"])
    observed = ObservedLog(header, tmp_path / "seen.kvtrace")
    observed.receive(0, Break("attached", 0))
    cycle = [stored([b"a"], [1], 1, b"c"), stored([b"b"], [2], 1, b"a"), stored([b"c"], [3], 1, b"b")]
    for number, event in enumerate([*cycle, stored([b"d"], [4], 1, b"d")]):
        observed.receive(0, Message(number, message(event), False))
    found = prefixes(indexed(observed.log, tmp_path), 4, ALL)
    assert sums(found) == (4, 4)
    observed.log.close()


def test_prefix_contents_are_read_lazily(tmp_path: Path) -> None:
    """The index of a followed run is reloaded every few seconds, and may have very many contents."""
    path = tmp_path / "roomy.kvtrace"
    write(path, Shape(blocks=200, requests=20, steps=40, bursts=0))
    with TraceReader(path) as log:
        log_index = indexed(log, tmp_path)
        cached = log_index.blocks_at(len(log) - 1)
        assert len(log_index.changes(0, len(log)))
        assert "contents" not in vars(log_index)
        assert prefixes(log_index, len(log) - 1, ALL).blocks == len(set(cached["content"][cached["is_cached"] != 0]))
        log_index.index = replace(log_index.index, contents=[msgspec.Raw(b"\x01")])
        del log_index.contents
        with pytest.raises(DerivedFileError, match="damaged"):
            prefixes(log_index, len(log) - 1, ALL)
