"""Server that answers `/metrics` and `/version` like vLLM, for tests."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def page(running: float, num_blocks: int = 512, hits: float = 0, queries: float = 0) -> str:
    """Return the metrics of one rank."""
    own = 'engine="0",model_name="m"'
    return (
        "# TYPE vllm:num_requests_running gauge\n"
        f"vllm:num_requests_running{{{own}}} {running}\n"
        "# TYPE vllm:num_requests_waiting gauge\n"
        f"vllm:num_requests_waiting{{{own}}} 2.0\n"
        "# TYPE vllm:kv_cache_usage_perc gauge\n"
        f"vllm:kv_cache_usage_perc{{{own}}} 0.25\n"
        "# TYPE vllm:prefix_cache_queries_total counter\n"
        f"vllm:prefix_cache_queries_total{{{own}}} {queries}\n"
        "# TYPE vllm:prefix_cache_hits_total counter\n"
        f"vllm:prefix_cache_hits_total{{{own}}} {hits}\n"
        "# TYPE vllm:cache_config_info gauge\n"
        f'vllm:cache_config_info{{block_size="32",engine="0",num_gpu_blocks="{num_blocks}"}} 1.0\n'
    )


class MetricsServer:
    """Server that responds with `text`, or closes the connection early if it is `broken`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.broken = False
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if owner.broken:
                    self.wfile.write(b"HTTP")
                    return
                body = {"/metrics": owner.text, "/version": '{"version":"0.32.0"}'}.get(self.path)
                self.send_response(404 if body is None else 200)
                self.end_headers()
                self.wfile.write((body or "").encode())

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
