"""The reader against damaged and hostile files: an answer or one of its two errors, no crash, no hang, bounded memory.

5,000 mutated files by default; KVTHEATER_FUZZ=100000 says how many, KVTHEATER_FUZZ_SEED which.
"""

from __future__ import annotations

import io
import os
import random
import struct
import time
import tracemalloc
import zlib
from pathlib import Path

import pytest

from app.messages import SubmittedPrompt
from app.recordings.summary import summarize
from engine.config import EngineConfig, SamplingParams
from engine.trace import codec
from engine.trace.check import check
from engine.trace.codec import FRAME_OVERHEAD, MAGIC, TraceFormatError
from engine.trace.compare import compare
from engine.trace.explain import overview, stories
from engine.trace.export.kv_events import write_kv_events_json
from engine.trace.export.perfetto import write_perfetto
from engine.trace.log import TraceReader
from engine.trace.state import TraceStateError
from tests.server.fake import FakeModel

FILES = int(os.environ.get("KVTHEATER_FUZZ", "5000"))
SECONDS_A_FILE = 2.0  # far above what any takes; a hang is far above that
MEMORY = 64 << 20  # bytes at any time; the seeds are smaller than 200 KB
FRAME = struct.Struct("<BII")
NUMBERS = [
    0,
    1,
    0x7F,
    0x80,
    0xC0,
    0xC4,
    0xC9,
    0xCF,
    0xD3,
    0xDC,
    0xDD,
    0xDE,
    0xDF,
    0xFF,
]  # msgpack's own marks among them


def frames_of(data: bytes) -> list[tuple[int, bytes]]:
    found, offset = [], len(MAGIC)
    while offset < len(data):
        kind, length, _ = FRAME.unpack_from(data, offset)
        found.append((kind, data[offset + FRAME_OVERHEAD : offset + FRAME_OVERHEAD + length]))
        offset += FRAME_OVERHEAD + length
    return found


def joined(frames: list[tuple[int, bytes]]) -> bytes:
    return MAGIC + b"".join(FRAME.pack(kind, len(p), zlib.crc32(p)) + p for kind, p in frames)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Half of them damaged as disks and transfers do it, half with checksums made right again, as an attacker would."""
    if chance.random() < 0.5:
        content = bytearray(data)
        for _ in range(chance.choice([1, 1, 2, 8])):
            place = chance.randrange(len(content))
            match chance.randrange(4):
                case 0:
                    content[place] ^= 1 << chance.randrange(8)
                case 1:
                    content[place] = chance.choice(NUMBERS)
                case 2:
                    del content[place : place + chance.choice([1, 4, 1000])]
                case 3:
                    content[place:place] = chance.randbytes(chance.choice([1, 9, 100]))
            if not content:
                break
        return bytes(content)
    frames = frames_of(data)
    for _ in range(chance.choice([1, 1, 2, 4])):
        place = chance.randrange(len(frames))
        kind, payload = frames[place]
        match chance.randrange(6):
            case 0:
                frames.insert(chance.randrange(len(frames)), frames[place])
            case 1 if len(frames) > 1:
                del frames[place]
            case 2:
                frames[place] = chance.choice([0, 1, 2, 3, 4, 5]), payload
            case _:
                content = bytearray(payload)
                for _ in range(chance.choice([1, 1, 3])):
                    if content:
                        content[chance.randrange(len(content))] = chance.choice([*NUMBERS, chance.randrange(256)])
                frames[place] = kind, bytes(content)
    return joined(frames)


def use_compare(reader: TraceReader) -> None:
    compare(reader, reader)


USES = [lambda reader, write=write: write(reader, io.BytesIO()) for write in (write_perfetto, write_kv_events_json)]


def read_everything(path: Path) -> None:
    """What the program does with a file that somebody sends: index it, list it, read it, fold it, check it."""
    for _ in check(path):
        pass
    try:
        summarize(path)
    except TraceFormatError:
        return
    for use in (use_compare, overview, stories, *USES):
        with TraceReader(path) as reader:
            try:
                use(reader)
            except (TraceFormatError, TraceStateError):
                continue
    for verify in (True, False):
        try:
            with TraceReader(path, verify) as reader:
                for index in range(len(reader)):
                    reader.record(index)
                    reader.capture(index)
                _ = reader.whole_end
                for index in {0, len(reader) // 2, len(reader) - 1} if len(reader) else ():
                    reader.state_at(index)
        except (TraceFormatError, TraceStateError):
            continue


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The golden walk through every operation, its first part; and a short run with arrays."""
    golden = Path(__file__).parents[2] / "golden" / "cache.kvtrace"
    path = tmp_path_factory.mktemp("seed") / "run.kvtrace"
    engine = FakeModel().build(EngineConfig(block_size=4, num_blocks=16), path)
    engine.submit([SubmittedPrompt(text="moonlight")], SamplingParams(max_tokens=8))
    while engine.num_unfinished():
        engine.step()
    engine.close()
    return [joined(frames_of(golden.read_bytes())[:30]), path.read_bytes()]


@pytest.mark.timeout(7200)
def test_mutated_files(seeds: list[bytes], tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("KVTHEATER_FUZZ_SEED", "0")))
    path = tmp_path / "mutated.kvtrace"
    slowest = 0.0
    tracemalloc_every = max(1, FILES // 100)  # measuring memory is slow: a sample of the files
    for number in range(FILES):
        content = mutate(chance.choice(seeds), chance)
        path.write_bytes(content)
        measured = number % tracemalloc_every == 0
        if measured:
            tracemalloc.start()
        started = time.perf_counter()
        try:
            read_everything(path)
        except BaseException as error:
            kept = Path(os.environ.get("KVTHEATER_FUZZ_KEEP", str(tmp_path))) / f"mutated-{number}.kvtrace"
            kept.write_bytes(content)
            raise AssertionError(f"file {number}, kept as {kept}: {error!r}") from error
        slowest = max(slowest, time.perf_counter() - started)
        if measured:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < MEMORY, f"file {number} took {peak} bytes"
        assert slowest < SECONDS_A_FILE, f"file {number} took {slowest:.1f} s"


def test_the_mutations_reach_behind_the_checksums(seeds: list[bytes], tmp_path: Path) -> None:
    """Otherwise the test above would test CRC-32: enough files must open, and enough records contradict the state."""
    chance = random.Random(1)
    opened = contradicted = 0
    for _ in range(400):
        path = tmp_path / "mutated.kvtrace"
        path.write_bytes(mutate(chance.choice(seeds), chance))
        try:
            with TraceReader(path) as reader:
                opened += 1
                reader.state_at(len(reader) - 1)
        except TraceStateError:
            contradicted += 1
        except TraceFormatError:
            pass
    assert opened > 200 and contradicted > 20, (opened, contradicted)


@pytest.mark.parametrize(("name", "value"), [("num_blocks", 1 << 62), ("swap_space", 1 << 40), ("block_size", -1)])
def test_a_header_that_asks_for_memory_gets_none(seeds: list[bytes], tmp_path: Path, name: str, value: int) -> None:
    import msgspec

    frames = frames_of(seeds[0])
    header = msgspec.msgpack.decode(frames[0][1])
    header["engine"][name] = value
    path = tmp_path / "greedy.kvtrace"
    path.write_bytes(joined([(1, codec.encode(header)), *frames[1:]]))
    tracemalloc.start()
    (finding,) = list(check(path))
    with TraceReader(path) as reader, pytest.raises(TraceStateError, match=f"engine.{name}"):
        reader.state_at(0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert f"engine.{name}" in finding.message and peak < MEMORY
