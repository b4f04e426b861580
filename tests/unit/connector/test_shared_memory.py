"""Transfers through shared memory deliver the requested blocks or fail with a reason."""

import fcntl
import mmap
import os
import resource
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.cache.block_tiers import BlockTiers
from engine.cache.kv_store import KVStore, LayerShape
from engine.config import EngineConfig
from engine.connector.link import ThrottledLink, TransferError
from engine.connector.peer import HEAD, Peer, PeerGoneError, wait_for_any
from engine.connector.shared_memory import BlockServer, Claim, Confirmed, Registered, SharedMemoryLink, socket_of
from engine.connector.shared_pools import MappedPools, Region, Row, SharedPools
from engine.trace.operations import Arrive, TransferFailed
from tests.unit.connector.pair import PLAIN, PROMPTS, Pair, baseline, check_that_no_wrong_reference_is_read, of
from tests.unit.engine.runs import tiny_llama


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder with a short path, since the address of a Unix socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="kvt-") as path:
        yield Path(path)


class SharedPair(Pair):
    """Two engines of one process that communicate like two processes."""

    def __init__(
        self, folder: Path, config: EngineConfig = PLAIN, wrap: Callable[[Any], Any] = lambda x: x, **more: Any
    ):
        link = SharedMemoryLink(folder)
        super().__init__(tiny_llama(), config, link=lambda _: wrap(link), new_pool=lambda: SharedPools(1 << 24), **more)
        sides = [(self.producer, self.prefill), (self.consumer, self.decode)]
        self.servers = [
            BlockServer(folder, connector.engine_id, connector, pools, pools.regions(engine.kv_caches))
            for (connector, engine), pools in zip(sides, self.pools, strict=True)
            if isinstance(pools, SharedPools)
        ]
        assert len(self.servers) == 2


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, "fp8_e4m3", "int8", "int4"])
def test_mapped_blocks_equal_the_owners_blocks(kind: Any) -> None:
    """Two groups of layers have different shapes, and their blocks are numbered consecutively."""
    pools = SharedPools(1 << 20)
    shapes = [LayerShape(2, 8, 6), LayerShape(1, 4, 4), LayerShape(2, 8, 6)]
    store = KVStore(shapes, [5, 7, 5], 4, kind, torch.device("cpu"), new_pool=pools)
    caches = [BlockTiers(store, [0, 2], 10), BlockTiers(store, [1], 15)]
    for layer, shape in enumerate(shapes):
        slots = torch.arange(store.num_slots(layer))
        keys = torch.randn(len(slots), shape.num_kv_heads, shape.head_dim)
        store.write(layer, slots, keys, torch.randn(len(slots), shape.num_kv_heads, shape.v_head_dim))
    file = pools.open()
    mapped = MappedPools(file, pools.regions(caches))
    os.close(file)
    blocks = [(0, 14), (1, 15), (0, 10), (1, 21), (0, 11)]
    for (group, block_id), content in zip(blocks, mapped.read(blocks), strict=True):
        assert content == bytes(caches[group].read([block_id])[0])
        assert len(content) == caches[group].bytes_per_block and any(content)
    for outside in [(0, 9), (0, 15), (1, 14), (1, 22), (2, 10), (-1, 10)]:
        with pytest.raises(TransferError, match="out_of_range"):
            mapped.read([outside])


def test_shared_memory_is_read_only_and_of_checked_size() -> None:
    pools = SharedPools(1 << 16)
    pools((4, 4), dtype=torch.float32, device=torch.device("cpu")).fill_(1.5)
    file = pools.open()
    with pytest.raises(OSError):
        os.write(file, b"x")
    with pytest.raises(OSError):
        mmap.mmap(file, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    with pytest.raises(OSError):
        os.ftruncate(pools._file, 0)
    with pytest.raises(ValueError, match="exceed the file"):
        MappedPools(file, [Region(0, 5, [Row(0, 1 << 14)])])
    with open("/proc/self/exe", "rb") as other, pytest.raises(OSError):
        MappedPools(other.fileno(), [Region(0, 1, [Row(0, 64)])])
    os.close(file)
    with pytest.raises(MemoryError):
        pools((1 << 16,), dtype=torch.uint8, device=torch.device("cpu"))
    with pytest.raises(ValueError, match="only CPU tensors"):
        pools((4,), dtype=torch.uint8, device=torch.device("meta"))


def test_blocks_released_during_a_read_are_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease ends and the blocks get another owner during the read."""
    now = [0.0]
    pair = SharedPair(
        folder, EngineConfig(block_size=4, num_blocks=8, max_model_len=32), lease=5.0, clock=lambda: now[0]
    )
    remote = pair.offer(PROMPTS[0])
    read = MappedPools.read

    def slowly(self: MappedPools, blocks: Any) -> list[bytes]:
        monkeypatch.undo()
        now[0] = 6.0
        pair.run(pair.prefill)
        pair.prefill.add_request([90 + i for i in range(23)])
        pair.run(pair.prefill)
        return read(self, blocks)

    monkeypatch.setattr(MappedPools, "read", slowly)
    request = pair.receive(remote, PROMPTS[0])
    pair.run()
    (failed,) = of(TransferFailed, pair.ops["decode"])
    assert failed.reason == "stale" and failed.detail.endswith("the lease of transfer t0 has expired")
    assert request.output_token_ids == baseline(PLAIN, [PROMPTS[0]])[0] and pair.held() == (0, 0)


def test_invalid_references_are_never_read(folder: Path) -> None:
    check_that_no_wrong_reference_is_read(SharedPair(folder))


def test_a_slow_link_has_its_configured_speed(folder: Path) -> None:
    waits, times = list[float](), iter([10.0, 10.001])  # reading takes 1 ms
    pair = SharedPair(folder, wrap=lambda link: ThrottledLink(link, 2e6, waits.append, times.__next__))
    pair.pass_on(PROMPTS[0])
    pair.run()
    (arrive,) = of(Arrive, pair.ops["decode"])
    assert arrive.link == "shared memory, throttled to 2 MB/s" and arrive.num_bytes == 6 * 4 * 2 * 2 * 8 * 3 * 4
    assert waits == [pytest.approx(arrive.num_bytes / 2e6 - 0.001)] and pair.held() == (0, 0)


def test_a_lease_is_renewed_over_the_link(folder: Path) -> None:
    now = [0.0]
    pair = SharedPair(folder, lease=5.0, clock=lambda: now[0])
    remote = pair.offer(PROMPTS[0])
    now[0] = 4.0
    SharedMemoryLink(folder).to("prefill").renew(remote.transfer)
    now[0] = 8.0
    pair.run()
    assert pair.held() == (6, 0)
    now[0] = 9.5
    with pytest.raises(TransferError, match="expired"):
        SharedMemoryLink(folder).to("prefill").renew(remote.transfer)
    pair.run()
    assert pair.held() == (0, 0)


def test_a_restarted_sender_does_not_know_earlier_transfers(folder: Path) -> None:
    link = SharedMemoryLink(folder)
    first = SharedPair(folder, wrap=lambda _: link)
    remote = first.offer(PROMPTS[0])
    link.to("prefill").renew(remote.transfer)
    first.servers[0].close()
    assert not socket_of(folder, "prefill").exists()
    with pytest.raises(TransferError, match="gone"):
        SharedMemoryLink(folder).to("prefill")
    second = SharedPair(folder, wrap=lambda _: link)
    with pytest.raises(TransferError, match="unknown"):
        SharedMemoryLink(folder).to("prefill").renew(remote.transfer)
    assert second.held() == (0, 0)


def sending(folder: Path, send: Callable[[socket.socket], object]) -> threading.Thread:
    """Listen as instance `prefill`, and call `send` with the socket of a connection."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(socket_of(folder, "prefill")))
    listening.listen()

    def serve() -> None:
        sock, _ = listening.accept()
        with listening, sock:
            send(sock)
            while sock.recv(1000):
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def with_memory(message: Any, capacity: int = 1 << 16) -> Callable[[socket.socket], None]:
    def send(sock: socket.socket) -> None:
        file = SharedPools(capacity).open()
        Peer[Confirmed](sock, Confirmed).send(message, file=file)
        os.close(file)

    return send


REGION = Region(0, 4, [Row(0, 64)])


@pytest.mark.parametrize(
    ("send", "reason"),
    [
        (lambda sock: None, "lost: instance prefill: it sent no message for 0.2 s"),
        (lambda sock: sock.shutdown(socket.SHUT_RDWR), "gone: instance prefill: the connection was closed"),
        (lambda sock: sock.sendall(b"\x05\0\0\0ab"), "lost: instance prefill: it sent no message for 0.2 s"),
        (
            lambda sock: sock.sendall(HEAD.pack(3) + b"abc"),
            "gone: instance prefill: the received data is not",
        ),
        (lambda sock: sock.sendall(HEAD.pack(1 << 31)), "gone: instance prefill: a message of 2147483648 bytes"),
        (
            lambda sock: Peer[Confirmed](sock, Confirmed).send(Registered("prefill", [REGION])),
            "lost: .* it sent no file descriptor of its memory",
        ),
        (with_memory(Registered("decode", [REGION])), "gone: instance prefill: another instance replied"),
        (with_memory(Registered("prefill", [])), "lost: .* its regions are empty"),
        (
            with_memory(Registered("prefill", [Region(0, 4, [Row(-8, 64)])])),
            "lost: .* its regions are empty",
        ),
        (
            with_memory(Registered("prefill", [Region(0, 9999, [Row(0, 64)])])),
            "lost: .* its regions exceed the file, or the file can be truncated",
        ),
        (with_memory(Registered("prefill", [Region(0, 1 << 60, [Row(0, 1 << 60)])])), "lost: .* cannot be read"),
        (with_memory(Confirmed()), "gone: instance prefill: another instance replied"),
        (with_memory(Registered("prefill", [REGION])), "lost: instance prefill: it sent no message for 0.2 s"),
    ],
)
def test_an_erroneous_sender_fails_one_transfer(send: Any, reason: str, folder: Path) -> None:
    thread = sending(folder, send)
    sender = SharedMemoryLink(folder, timeout=0.2 if reason.endswith("0.2 s") else 20.0).to("prefill")
    with pytest.raises(TransferError, match=reason):
        sender.read("t0", [(0, 1)])
    thread.join(20)
    assert not thread.is_alive()
    with pytest.raises(TransferError):
        sender.read("t0", [(0, 1)])


def test_an_invalid_request_closes_only_its_own_connection(folder: Path) -> None:
    pair = SharedPair(folder)
    remote = pair.offer(PROMPTS[0])
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(socket_of(folder, "prefill")))
    peer = Peer[Registered | Confirmed](sock, Registered | Confirmed)
    assert isinstance(peer.receive(20), Registered)
    sock.sendall(HEAD.pack(2) + b"\xc1\xc1")
    with pytest.raises(PeerGoneError):
        peer.receive(20)
    peer.release()
    SharedMemoryLink(folder).to("prefill").renew(remote.transfer)


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "x" * 42, "a b", "a\n"])
def test_instance_names_that_are_no_file_names_are_refused(name: str, folder: Path) -> None:
    with pytest.raises(ValueError, match="cannot be called"):
        socket_of(folder, name)
    with pytest.raises(TransferError, match="gone"):
        SharedMemoryLink(folder).to(name)


def test_a_message_larger_than_the_pipe_buffer_is_delivered() -> None:
    """Three messages are sent while the receiver reads. One that is not read in time closes the connection."""
    local, remote = socket.socketpair()
    sender, receiver = Peer[Any](local, Any), Peer[Claim](remote, Claim)
    message = Claim("t", [(i, i) for i in range(300_000)])

    def send() -> None:
        for _ in range(3):
            sender.send(message)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    assert [receiver.receive(20) for _ in range(3)] == [message] * 3
    thread.join()
    assert receiver.receive_all() == []
    with pytest.raises(PeerGoneError):
        sender.send(message, timeout=0.1)
    with pytest.raises(PeerGoneError):
        while True:
            receiver.receive_all()
    sender.release()
    receiver.release()


def test_waiting_works_with_descriptors_over_1023() -> None:
    """`select` would reject descriptors over 1023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2048), hard), hard))
    local, remote = socket.socketpair()
    with local, remote:
        high = fcntl.fcntl(remote.fileno(), fcntl.F_DUPFD_CLOEXEC, 1500)
        try:
            assert wait_for_any([high], 0.01) == []
            local.send(b"x")
            assert wait_for_any([high], 20) == [high]
        finally:
            os.close(high)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
