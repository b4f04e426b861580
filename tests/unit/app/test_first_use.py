"""A type may be decoded for the first time on many threads at once, when several viewers' requests arrive together."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RECORDS = """
import struct
from engine.trace import codec
from engine.trace.records import StepRecord

data, offset, record = open('tests/golden/cache.kvtrace', 'rb').read(), 8, None
while record is None:
    kind, length, _ = struct.unpack_from('<BII', data, offset)
    record = data[offset + 9 : offset + 9 + length] if kind == 2 else None
    offset += 9 + length

def read_first():
    codec.decode(record, StepRecord)
"""
BODIES = """
from app.server.first_use import prepare_types
from app.openai.bodies import ChatBody, CompletionBody, read

prepare_types()

def read_first():
    read(b'{"model": "m", "prompt": "p", "stop": ["x"], "stream_options": {}}', CompletionBody)
    read(b'{"model": "m", "messages": [{"role": "user", "content": "p"}]}', ChatBody)
"""
AT_ONCE = """
import sys, threading

sys.setswitchinterval(1e-6)
gate, found = threading.Barrier(16), []

def run():
    gate.wait()
    read_first()
    found.append(True)

threads = [threading.Thread(target=run) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(found) == 16
"""


@pytest.mark.slow
@pytest.mark.parametrize("types", [RECORDS, BODIES], ids=["records", "bodies"])
def test_many_threads_may_first_decode_a_type_at_once(types: str) -> None:
    """msgspec 0.22 crashes with a segmentation fault when two threads first use a type at once."""
    for _ in range(3):  # without the fix, about two runs of three crash
        done = subprocess.run([sys.executable, "-c", types + AT_ONCE], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:] or f"ended by signal {-done.returncode}"
