"""Instances as processes that serve a small model from a folder."""

import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from engine.cluster import worker_process
from engine.cluster.instance import Produced, RoutedRequest
from engine.cluster.process import ProcessInstance
from engine.cluster.processes import Processes
from engine.cluster.worker_process import Workers
from engine.config import EngineConfig, SamplingParams
from engine.connector.link import RemoteBlocks
from engine.requests.request_spec import RequestSpec
from engine.setup.id_namespace import IdNamespace
from engine.trace.operations import Op, Submit
from tests.preloaded import PreloadedPopen
from tests.tiny_models import tiny_model, tiny_tokenizer

T = TypeVar("T")
GREEDY = SamplingParams(max_tokens=9, ignore_eos=True)
ONE = SamplingParams(max_tokens=1, ignore_eos=True)
MAX_WAIT = 60.0  # seconds; a test that waits for longer fails


def save_tiny_llama(folder: Path) -> str:
    """Save `tiny_llama` in a folder from which processes load it."""
    tiny_model("llama").save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def start_preloaded(patch: pytest.MonkeyPatch) -> None:
    """Fork instances from a process that has already imported torch."""
    preloaded = SimpleNamespace(**{**vars(subprocess), "Popen": PreloadedPopen})
    patch.setattr(worker_process, "subprocess", preloaded)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "Z"


def until(condition: Callable[[], T], seconds: float = MAX_WAIT) -> T:
    """Return the value of `condition()` once it is truthy."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"the condition did not become true within {seconds} s"
        time.sleep(0.01)
    return found


class InstancePair:
    """Prefill and decode instance that a test drives turn by turn."""

    def __init__(self, processes: Processes, config: EngineConfig, decode_config: EngineConfig | None = None) -> None:
        decode = decode_config or config
        self.prefill = processes.start("prefill-0", "prefill", config, IdNamespace(0, 0, 0, 2))
        self.decode = processes.start("decode-0", "decode", decode, IdNamespace(config.num_blocks or 0, 0, 1, 2))
        for one in (self.prefill, self.decode):
            one.wait_until_ready()  # otherwise a lease could expire meanwhile
        self.ops: dict[str, list[Op]] = {"prefill-0": [], "decode-0": []}
        self.tokens: dict[int, list[int]] = {}
        self._names = 0

    def turn(self, one: ProcessInstance) -> list[Produced]:
        one.begin_turn()
        produced = list[Produced]()
        while one.num_turns:
            select.select([one.fileno()], [], [], MAX_WAIT)
            produced += self.take(one)
        return produced

    def take(self, one: ProcessInstance) -> list[Produced]:
        """Read the available output, and note its operations and tokens."""
        produced = one.take()
        for record, _, _ in produced:
            self.ops[one.name] += record.ops
            for output in record.outputs:
                self.tokens.setdefault(output.seq_id, []).append(output.token_id)
        return produced

    def run(self, one: ProcessInstance, is_done: Callable[[], bool] | None = None) -> None:
        """Take turns until the instance is idle or the condition holds."""
        end = time.monotonic() + MAX_WAIT
        self.take(one)
        while not (is_done() if is_done else one.load.unfinished == one.load.holding == 0):
            assert time.monotonic() < end, f"{one.name} is still busy: {one.load}"
            self.turn(one)

    def send(self, prompt: list[int]) -> RemoteBlocks:
        """Compute the prompt on the prefill instance and return the offer of its blocks."""
        name = f"t{self._names}"
        self._names += 1
        spec = RequestSpec(prompt, ONE, name, transfer=name, kv_role="kv_producer")
        self.prefill.submit([RoutedRequest(spec)])
        offers = [offer for produced in self.turn(self.prefill) for offer in produced.offers]
        assert len(offers) == 1
        return offers[0]

    def receive(self, remote: RemoteBlocks, prompt: list[int], **more: Any) -> int:
        """Submit the prompt to the decode instance and return the sequence's id."""
        spec = RequestSpec(prompt, GREEDY, transfer=remote.transfer, kv_role="kv_consumer", **more)
        self.decode.submit([RoutedRequest(spec, remote)])
        (produced,) = self.take(self.decode)
        (seq_id,) = [op.seq_id for op in produced.record.ops if isinstance(op, Submit)]
        return seq_id

    def of(self, kind: type[T], name: str) -> list[T]:
        return [op for op in self.ops[name] if isinstance(op, kind)]


@contextmanager
def instance_pair(
    workers: Workers, config: EngineConfig, decode: EngineConfig | None = None, **more: Any
) -> Iterator[InstancePair]:
    with Processes(workers, **more) as processes:
        yield InstancePair(processes, config, decode)
