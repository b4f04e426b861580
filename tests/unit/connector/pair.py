"""Two engines on one thread, of which one computes prompts and the other decodes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from engine.cache.block_tiers import BlockTiers
from engine.cache.kv_plane import NewPool, zeros
from engine.config import EngineConfig, SamplingParams
from engine.connector.link import Link, LocalLink, RemoteBlocks, Sender, text_of
from engine.connector.transfer import TransferConnector
from engine.engine import Engine
from engine.model.loaded import LoadedModel
from engine.requests.request import Request
from engine.trace.operations import Op, TransferFailed
from engine.trace.snapshot import Snapshot, snapshot_of
from tests.unit.engine.runs import log_of, tiny_llama

GREEDY = SamplingParams(max_tokens=9, ignore_eos=True)
T = TypeVar("T")
SHARED = [5, 9, 11, 3, 7, 8, 2, 4, 6, 10, 12, 13, 21, 22, 23, 24, 25, 26, 27, 28, 29]
PROMPTS = [[*SHARED, 30, 31], [*SHARED, 40, 41, 42, 43, 44], [50, 51], [60, 61, 62, 63, 64]]
PLAIN = EngineConfig(block_size=4, num_blocks=40)
SETTINGS = {
    "plain": PLAIN,
    "no prefix cache": EngineConfig(block_size=4, num_blocks=40, enable_prefix_caching=False),
    "chunks": EngineConfig(block_size=4, num_blocks=40, max_num_batched_tokens=7),
    "tight": EngineConfig(block_size=4, num_blocks=11, max_model_len=40),
    "swap": EngineConfig(block_size=4, num_blocks=11, max_model_len=40, preemption_mode="swap"),
    "sinks": EngineConfig(block_size=4, num_blocks=40, attention_window=8, attention_sinks=4),
    "hybrid": EngineConfig(block_size=4, num_blocks=40, attention_window=8, sliding_window_pattern=2),
    "int8": EngineConfig(block_size=4, num_blocks=40, kv_cache_dtype="int8"),
    "one": EngineConfig(block_size=1, num_blocks=99),
}


def of(kind: type[T], ops: Sequence[Op]) -> list[T]:
    return [op for op in ops if isinstance(op, kind)]


def baseline(config: EngineConfig, prompts: list[list[int]], model: Any = None) -> list[list[int]]:
    with Engine(model or tiny_llama(), config, keep_log=False) as engine:
        requests = [engine.add_request(prompt, GREEDY) for prompt in prompts]
        while engine.has_unfinished():
            engine.step()
        return [request.output_token_ids for request in requests]


def checked(engine: Engine) -> Snapshot:
    """Check the cache and its log, overwrite blocks that are neither held nor cached, and return the cache's state."""
    engine.check_integrity()
    now = engine.snapshot()
    assert now == snapshot_of(log_of(engine).state_now())
    stale = [i for i, count in enumerate(now.ref_counts) if count == 0 and now.block_hashes[i] is None]
    for group in engine.block_groups:
        ids = range(group.first_block, group.first_block + group.num_blocks)
        for pool in engine._runner.kv_store.pools(group.layers):
            if pool.is_floating_point():
                pool[[i - group.first_block for i in stale if i in ids]] = 1e4
    return now


def layout(kv_caches: Sequence[BlockTiers]) -> bytes:
    return repr([cache.bytes_per_block for cache in kv_caches]).encode()


class Pair:
    """Engine `prefill` that holds blocks and engine `decode` that pulls them, both checked after every record."""

    def __init__(
        self,
        model: LoadedModel,
        config: EngineConfig,
        decode_config: EngineConfig | None = None,
        link: Callable[[dict[str, Sender]], Link] = LocalLink,
        logs: Path | None = None,
        new_pool: Callable[[], NewPool] = lambda: zeros,
        **options: Any,
    ) -> None:
        self.senders: dict[str, Sender] = {}
        self.producer = TransferConnector("prefill", link(self.senders), layout, **options)
        self.consumer = TransferConnector("decode", link(self.senders), layout, **options)
        self.senders.update(prefill=self.producer, decode=self.consumer)
        paths = [logs / f"{name}.kvtrace" if logs else None for name in self.senders]
        self.pools = [new_pool(), new_pool()]
        self.prefill = Engine(model, config, connector=self.producer, log_path=paths[0], new_pool=self.pools[0])
        self.decode = Engine(
            model, decode_config or config, connector=self.consumer, log_path=paths[1], new_pool=self.pools[1]
        )
        self.ops: dict[str, list[Op]] = {"prefill": [], "decode": []}
        self.both: list[Op] = []  # operations of both engines, in order
        self._names = 0

    def send(self, prompt: list[int], sampling: SamplingParams = GREEDY, **more: Any) -> RemoteBlocks | None:
        """Compute and hold the prompt on `prefill`, and return the reference of its blocks."""
        name = f"t{self._names}"
        self._names += 1
        one = SamplingParams(max_tokens=1, ignore_eos=True)
        self.prefill.add_request(prompt, one, name, transfer=name, kv_role="kv_producer", **more)
        self.run(self.prefill)
        return self.producer.take_offer(name)

    def offer(self, prompt: list[int], **more: Any) -> RemoteBlocks:
        """Send the prompt, and return its reference, which must exist."""
        found = self.send(prompt, **more)
        assert found is not None
        return found

    def receive(
        self, remote: RemoteBlocks, prompt: list[int], sampling: SamplingParams = GREEDY, **more: Any
    ) -> Request:
        self.consumer.expect(remote)
        transfer = remote.transfer
        return self.decode.add_request(prompt, sampling, transfer=transfer, kv_role="kv_consumer", **more)

    def pass_on(self, prompt: list[int], sampling: SamplingParams = GREEDY, **more: Any) -> Request:
        return self.receive(self.offer(prompt, **more), prompt, sampling, **more)

    def run(self, engine: Engine | None = None) -> None:
        """Step an engine, or both, until nothing is left to do."""
        engines = [self.prefill, self.decode] if engine is None else [engine]
        while any(self.turn(engine) for engine in engines):
            pass

    def turn(self, engine: Engine) -> bool:
        """Progress transfers and take a step. Return False if the engine is idle."""
        name = "prefill" if engine is self.prefill else "decode"
        record = engine.take_transfers()
        self._check(engine, name, record)
        if not engine.can_step:
            return record is not None
        self._check(engine, name, engine.step())
        return True

    def _check(self, engine: Engine, name: str, record: Any) -> None:
        if record is None:
            return
        self.ops[name] += record.ops
        self.both += record.ops
        assert checked(engine).memory == record.memory

    def held(self) -> tuple[int, int]:
        """Return the number of held blocks of both engines."""
        return self.prefill.snapshot().memory.blocks_held, self.decode.snapshot().memory.blocks_held


def both_logs(model: LoadedModel, folder: Path) -> list[Path]:
    """Return the logs of both engines for transfers of which some succeed, one fails, and one is never fetched."""
    now = [0.0]
    config = EngineConfig(block_size=4, num_blocks=40, attention_window=8, sliding_window_pattern=2)
    pair = Pair(model, config, logs=folder, lease=5.0, clock=lambda: now[0])
    for first in (10, 10, 40):
        pair.pass_on([first + i for i in range(17)])
    pair.run()
    remote = pair.offer([70 + i for i in range(9)])
    now[0] = 6.0
    pair.run()
    pair.receive(remote, [70 + i for i in range(9)])
    pair.run()
    pair.prefill.close()
    pair.decode.close()
    return [folder / f"{name}.kvtrace" for name in pair.senders]


def check_that_no_wrong_reference_is_read(pair: Pair) -> None:
    """Check that consumed, unknown, too wide and foreign references fail with their reason, and that the prompt is
    computed instead.
    """
    remote = pair.offer(PROMPTS[0])
    pair.receive(remote, PROMPTS[0])
    pair.run()
    other = [90 + i for i in range(23)]
    held = pair.offer(other)
    bad: dict[str, RemoteBlocks] = {
        "consumed": remote,
        "unknown": remote._replace(transfer="t99"),
        "out_of_range": held._replace(block_tables=[[i + 1 for i in held.block_tables[0]]]),
        "other_layout": held._replace(layout=b"another model"),
        "gone": held._replace(engine_id="nowhere"),
    }
    for reason, wrong in bad.items():
        prompt = [33, *PROMPTS[0][1:]]
        wrong = wrong._replace(text=text_of(prompt, reason))
        request = pair.receive(wrong, prompt, cache_salt=reason)
        pair.run()
        assert of(TransferFailed, pair.ops["decode"])[-1].reason == reason
        assert request.output_token_ids == baseline(PLAIN, [prompt])[0], reason
    assert pair.held() == (6, 0)
    request = pair.receive(held, other)
    pair.run()
    assert request.output_token_ids == baseline(PLAIN, [other])[0] and pair.held() == (0, 0)
