"""Upper bounds of vLLM's histograms, so that its dashboards and alerts can be used unchanged.

Source: vLLM 0.32, vllm/v1/metrics/buckets.py.
"""

from __future__ import annotations

Buckets = tuple[float, ...]

# e2e, queue, prefill, decode, inference; seconds
REQUEST_LATENCY: Buckets = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
TIME_TO_FIRST_TOKEN: Buckets = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)  # fmt: skip
INTER_TOKEN_LATENCY: Buckets = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
ITERATION_TOKENS: Buckets = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
REQUEST_N: Buckets = (1, 2, 5, 10, 20)
REQUEST_PREEMPTIONS: Buckets = (1, 2, 3, 4, 5, 10, 20)
KV_BLOCK_RESIDENCY: Buckets = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800,
)  # fmt: skip


def tokens_up_to(limit: int) -> Buckets:
    """Return vLLM's bounds for prompts and outputs: 1, 2, 5, 10, 20, 50 and so on up to `limit` tokens."""
    bounds: list[float] = []
    power = 1
    while power <= limit:
        bounds += [times * power for times in (1, 2, 5) if times * power <= limit]
        power *= 10
    return tuple(bounds)
