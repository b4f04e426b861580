"""A type may be first decoded on many threads at once: several viewers' requests arrive together."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import struct, sys, threading
from engine.trace import codec
from engine.trace.records import StepRecord

data, offset, record = open('tests/golden/cache.kvtrace', 'rb').read(), 8, None
while record is None:
    kind, length, _ = struct.unpack_from('<BII', data, offset)
    record = data[offset + 9 : offset + 9 + length] if kind == 2 else None
    offset += 9 + length

sys.setswitchinterval(1e-6)
gate, found = threading.Barrier(16), []

def decode():
    gate.wait()
    found.append(codec.decode(record, StepRecord))

threads = [threading.Thread(target=decode) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(found) == 16
"""


@pytest.mark.slow
def test_many_threads_may_be_the_first_to_read_a_record() -> None:
    """msgspec 0.22 ends the process with a segmentation fault when two threads meet a type at once."""
    for _ in range(3):  # a race: it is lost in about two runs of three
        done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:] or f"ended by signal {-done.returncode}"


BODIES = """
import sys, threading
from app.server.first_use import prepare_types
from app.openai.bodies import ChatBody, CompletionBody, read

if sys.argv[1] == "prepared":
    prepare_types()
sys.setswitchinterval(1e-6)
gate, found = threading.Barrier(16), []

def ask():
    gate.wait()
    found.append(read(b'{"model": "m", "prompt": "p", "stop": ["x"], "stream_options": {}}', CompletionBody))
    found.append(read(b'{"model": "m", "messages": [{"role": "user", "content": "p"}]}', ChatBody))

threads = [threading.Thread(target=ask) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(found) == 32
"""


@pytest.mark.slow
def test_many_requests_may_be_the_first_of_a_server() -> None:
    """Ten clients that began at once ended a server: each was the first to send a body."""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", BODIES, "prepared"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:] or f"ended by signal {-done.returncode}"
