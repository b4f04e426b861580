"""Compute the prefix hits of a trace, request by request, with an independent implementation: Dynamo's vLLM simulator.

    python -m tests.load.dynamo_hits        with ai-dynamo and ai-dynamo-runtime installed (1.6.1; nothing else of it)

It writes `tests/unit/simulate/dynamo_hits.json`, with which a test compares this project's cache.
"""

import importlib.metadata
import json
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "engine" / "bench" / "traces" / "mooncake-conversation.jsonl"
TARGET = ROOT / "tests" / "unit" / "simulate" / "dynamo_hits.json"
BLOCK_SIZE = 512  # of the trace's hashes
NUM_BLOCKS = [8000, 300]  # room for the whole trace, and for little more than its longest request
MAX_TOKENS = 200_000  # token budget: every prompt is computed in one step


def reused_tokens(num_blocks: int) -> list[int]:
    """Return the reused tokens of each request of the trace, in order."""
    from dynamo.replay import run_trace_replay  # type: ignore[import-not-found]

    engine = {
        "backend": "vllm",
        "num_gpu_blocks": num_blocks,
        "block_size": BLOCK_SIZE,
        "enable_prefix_caching": True,
        "max_num_batched_tokens": MAX_TOKENS,
        "max_num_seqs": 16,
    }
    with tempfile.TemporaryDirectory() as folder:
        report = run_trace_replay(
            [str(TRACE)],
            extra_engine_args={"engine": engine},
            trace_block_size=BLOCK_SIZE,
            report_jsonl_path=str(Path(folder) / "report.jsonl"),
            capture_per_request=True,
            replay_concurrency=1,
        )
    rows = sorted(report.per_request, key=lambda row: row["first_admit_ms"])
    assert all(row["admission_count"] == 1 for row in rows), "a preempted request would be admitted again"
    return [row["reused_input_tokens"] for row in rows]


def main() -> None:
    """Write the file."""
    version = importlib.metadata.version("ai-dynamo-runtime")
    found = {
        "source": f"dynamo.replay of ai-dynamo {version}, backend vllm, one request at a time",
        "trace": TRACE.stem,
        "block_size": BLOCK_SIZE,
        "reused_tokens": {str(number): reused_tokens(number) for number in NUM_BLOCKS},
    }
    TARGET.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
