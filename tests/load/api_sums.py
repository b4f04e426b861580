"""Consistency of the counts of clients, log and /metrics after a load."""

from collections import defaultdict
from pathlib import Path

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from engine.trace.check import check
from engine.trace.log import TraceReader
from engine.trace.operations import Admit, BlockOp, Evict, Finish, Lookup, Preempt, Sample, Submit
from tests.load.api_client import MAX_TOKENS


class Clients(Struct, frozen=True, kw_only=True):
    """Counts of clients. `left`: responses aborted by their client; `tokens`: tokens of complete responses."""

    requests: int
    left: int
    tokens: int


def differences(seen: Clients, log: Path, metrics: str) -> list[str]:
    """Return the mismatches, a line each. All requests must have finished and have one sequence each."""
    found = [f"the log: {problem}" for problem in check(log)]
    logged = _of_log(log)
    shown = _of_metrics(metrics)
    found += [
        f"{name}: the log has {logged[name]:g}, /metrics {shown[name]:g}"
        for name in sorted({*logged, *shown})
        if logged[name] != shown[name]
    ]
    completed, aborted = logged["requests, length"], logged["requests, abort"]
    whole = seen.requests - seen.left
    bounds = [
        (logged["requests"] == seen.requests, f"{seen.requests} were sent, the log has {logged['requests']:g}"),
        (logged["requests"] == completed + aborted, f"{completed:g} ended and {aborted:g} were aborted, of as many"),
        (completed >= whole, f"{whole} were answered whole, the log has {completed:g} of these"),
        (aborted <= seen.left, f"{seen.left} were left, the log has {aborted:g} aborted"),
        (seen.tokens == whole * MAX_TOKENS, f"{whole} whole answers had {seen.tokens} tokens"),
    ]
    return found + [what for holds, what in bounds if not holds]


def _of_log(path: Path) -> dict[str, float]:
    """Return the counts of a log by name, and those of the pool after the last record."""
    found: dict[str, float] = defaultdict(float)
    admitted: set[int] = set()
    answered: set[int] = set()
    prompts: dict[int, int] = {}
    with TraceReader(path) as log:
        for index in range(len(log)):
            record = log.record(index)
            for op in record.ops:
                if isinstance(op, BlockOp):
                    found["references to blocks"] += op.holds
                if isinstance(op, Submit):
                    found["requests"] += 1
                    prompts[op.seq_id] = len(op.prompt_token_ids)
                elif isinstance(op, Lookup) and op.seq_id not in admitted:
                    found["tokens asked of the prefix cache"] += op.num_tokens
                    found["tokens that hit"] += op.num_hit_tokens
                elif isinstance(op, Admit):
                    admitted.add(op.seq_id)
                elif isinstance(op, Sample):
                    found["tokens sampled"] += 1
                    if op.seq_id not in answered:
                        answered.add(op.seq_id)
                        found["prompt tokens"] += prompts[op.seq_id]
                elif isinstance(op, Evict):
                    found["evictions"] += 1
                elif isinstance(op, Preempt):
                    found["preemptions"] += 1
                elif isinstance(op, Finish):
                    found[f"requests, {op.reason}"] += 1
            if index == len(log) - 1:
                found["blocks held"] = record.memory.blocks_held
    return found


def _of_metrics(text: str) -> dict[str, float]:
    """Return the counts of /metrics by name. Gauges are 0 when no request is in flight."""
    names = {
        "vllm:prefix_cache_queries_total": "tokens asked of the prefix cache",
        "vllm:prefix_cache_hits_total": "tokens that hit",
        "vllm:prompt_tokens_total": "prompt tokens",
        "vllm:generation_tokens_total": "tokens sampled",
        "kvtheater:evictions_total": "evictions",
        "vllm:num_preemptions_total": "preemptions",
        "vllm:num_requests_running": "requests that run",
        "vllm:num_requests_waiting": "requests that wait",
        "vllm:kv_cache_usage_perc": "blocks held",
    }
    found: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in names:
                found[names[sample.name]] += sample.value
            elif sample.name == "vllm:request_success_total":
                found[f"requests, {sample.labels['finished_reason']}"] += sample.value
                found["requests"] += sample.value
    return found
