"""The comparison with another engine's log maps block hashes and request ids, and omits unreported values."""

import gzip
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.trace.compare import compare
from engine.trace.id_mapping import HashMapping
from engine.trace.log import TraceReader
from engine.trace.operations import Cache, Evict, Finish, Op, Submit

ROOT = Path(__file__).parents[3]


def cache(block_id: int, block_hash: bytes, parent_hash: bytes | None = None) -> Op:
    return Cache(
        seq_id=0, block_id=block_id, logical=0, block_hash=block_hash, parent_hash=parent_hash, token_ids=[1, 2]
    )


def test_equal_blocks_with_other_hashes_are_no_difference() -> None:
    renamed = HashMapping()
    ours, theirs = [cache(0, b"a"), cache(1, b"b", b"a")], [cache(0, b"1"), cache(1, b"2", b"1")]
    a, b = renamed.pair(ours, theirs)
    assert a == b
    assert renamed.pair([Evict(block_id=0, block_hash=b"a")], [Evict(block_id=0, block_hash=b"1")])[1] == [
        Evict(block_id=0, block_hash=b"a")
    ]


@pytest.mark.parametrize(("ours", "theirs"), [(b"a", b"2"), (b"b", b"1")])
def test_swapped_hashes_are_a_difference(ours: bytes, theirs: bytes) -> None:
    renamed = HashMapping()
    renamed.pair([cache(0, b"a"), cache(1, b"b")], [cache(0, b"1"), cache(1, b"2")])
    a, b = renamed.pair([Evict(block_id=0, block_hash=ours)], [Evict(block_id=0, block_hash=theirs)])
    assert a != b


def test_tokens_are_compared_but_not_texts_and_details() -> None:
    def submit(text: bytes, token: int) -> Op:
        return Submit(
            seq_id=0,
            queue_position=0,
            request_id="r",
            prompt_token_ids=[token],
            prompt_token_bytes=[text],
            max_tokens=1,
        )

    renamed = HashMapping()
    a, b = renamed.pair([submit(b"x", 1)], [submit(b"", 1)])
    assert a == b
    a, b = renamed.pair([submit(b"x", 1)], [submit(b"x", 2)])
    assert a != b
    a, b = renamed.pair([Finish(seq_id=0, reason="stop", detail="7")], [Finish(seq_id=0, reason="stop")])
    assert a == b


def test_a_monitored_server_reports_no_totals() -> None:
    with (
        TraceReader(ROOT / "static/recordings/beside-ours.kvtrace") as one,
        TraceReader(ROOT / "tests/golden/observed.kvtrace") as two,
    ):
        found = compare(one, two)
    assert {"num_steps", "preemptions", "hit_tokens", "seconds", "flops"} <= set(found.unsaid.b)
    assert found.unsaid.a == [] and found.unsaid.source_b.startswith("vLLM")
    assert {setting.name for setting in found.settings} <= {"block_size", "num_blocks", "strategy"}


def test_a_changed_hash_in_an_equal_vllm_log_is_a_difference(tmp_path: Path) -> None:
    path = tmp_path / "run.kvtrace"
    path.write_bytes(gzip.decompress((ROOT / "tests/unit/vllm_recorder/captured/preemptions.kvtrace.gz").read_bytes()))
    with TraceReader(path) as one, TraceReader(path) as two:
        assert compare(one, two).first_op is None
        other = tmp_path / "other.kvtrace"
        from engine.trace.log import TraceWriter

        with TraceWriter(one.header, other) as log:  # an equal log up to a record with one hash for all blocks
            for index in range(len(one)):
                record = one.record(index)
                ops = [replace(op, block_hash=b"else") if isinstance(op, Cache) else op for op in record.ops]
                log.append(replace(record, ops=ops))
                if ops != record.ops:
                    break
        with TraceReader(other) as changed:
            first = compare(one, changed).first_op
    assert first is not None and isinstance(first.a, Cache)
