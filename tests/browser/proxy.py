"""A reverse proxy like those of schools, companies and JupyterHub, below a path or without WebSockets."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Literal

CHUNK = 1 << 16
WebSockets = Literal["pass", "swallow"]


@contextlib.contextmanager
def proxied(target: str, prefix: str = "", websockets: WebSockets = "pass") -> Iterator[str]:
    """Run a proxy in front of `target`, an address without a last slash.

    Args:
        target: address of the server, "http://127.0.0.1:8765".
        prefix: path below which the server appears, removed from forwarded requests. Other paths give 404.
        websockets: with "swallow", an upgrade is never answered.

    Yields:
        Address of the proxied server, without a last slash.
    """
    host, _, port = target.removeprefix("http://").partition(":")
    proxy = _Proxy((host, int(port)), prefix.encode(), websockets)
    started: Future[tuple[int, Callable[[], object]]] = Future()

    async def serve() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with await asyncio.start_server(proxy.handle, "127.0.0.1", 0) as server:
            started.set_result((server.sockets[0].getsockname()[1], lambda: loop.call_soon_threadsafe(stop.set)))
            await stop.wait()
            asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # for interrupted connections
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    thread = threading.Thread(target=asyncio.run, args=[serve()], daemon=True)
    thread.start()
    own_port, stop = started.result()
    try:
        yield f"http://127.0.0.1:{own_port}{prefix}"
    finally:
        stop()
        thread.join()


class _Proxy:
    def __init__(self, target: tuple[str, int], prefix: bytes, websockets: WebSockets) -> None:
        self._target, self._prefix, self._websockets = target, prefix, websockets

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; an upgraded connection lasts until either end closes it."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, version = head.split(b"\r\n", 1)[0].split(b" ")
            if not path.startswith(self._prefix + b"/"):
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            is_upgrade = b"upgrade: websocket" in head.lower()
            if is_upgrade and self._websockets == "swallow":
                await reader.read()  # until the page closes the connection
                return
            lines = [
                one for one in head.split(b"\r\n")[1:-2] if is_upgrade or not one.lower().startswith(b"connection:")
            ]
            lines.insert(0, b" ".join([method, path.removeprefix(self._prefix), version]))
            if not is_upgrade:
                lines.append(b"Connection: close")
            upstream, upstream_writer = await asyncio.open_connection(*self._target)
            with contextlib.closing(upstream_writer):
                upstream_writer.write(b"\r\n".join(lines) + b"\r\n\r\n")
                sending = asyncio.ensure_future(_pump(reader, upstream_writer))
                await _pump(upstream, writer)
                sending.cancel()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while block := await reader.read(CHUNK):
        writer.write(block)
        await writer.drain()
