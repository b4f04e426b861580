"""Names, help, labels and buckets of the metrics. Those of vLLM 0.32 begin with `vllm:` and have the same meaning;
additional ones begin with `kvtheater:`.

Every series has the labels `model_name` and `engine`. vLLM numbers engines from 0. Here all sessions of a model are one
engine, "0", so that the number of series does not grow with the sessions.
"""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from app.metrics import buckets as b
from app.metrics.buckets import Buckets
from engine.trace.operations import ExternalVerdict, LookupReason, Medium, PreemptionMode, PreemptReason, TransferFault

LABELS = ("model_name", "engine")
ENGINE = "0"
FINISHED = ("stop", "length", "abort", "error")  # error: a failed step, recorded as an abort with its cause
SOURCES = ("device", "host", "p2p", "disk", "external_unspecified")  # vLLM's names of locations of cached content
AWAKE = ("awake", "weights_offloaded", "discard_all")
TOKENS: Literal["tokens"] = "tokens"  # buckets that depend on the model's longest sequence


class Metric(Struct, frozen=True):
    """Metric. A counter's exposed name has the suffix `_total`."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...] = ()  # in addition to LABELS
    values: tuple[tuple[str, ...], ...] = ((),)  # values of these labels, whose series begin at 0
    buckets: Buckets | Literal["tokens"] = ()


def _gauge(name: str, help: str, labels: tuple[str, ...] = (), values: tuple[tuple[str, ...], ...] = ((),)) -> Metric:
    return Metric(name, "gauge", help, labels, values)


def _counter(name: str, help: str, labels: tuple[str, ...] = (), values: tuple[tuple[str, ...], ...] = ((),)) -> Metric:
    return Metric(name, "counter", help, labels, values)


def _histogram(name: str, help: str, buckets: Buckets | Literal["tokens"]) -> Metric:
    return Metric(name, "histogram", help, buckets=buckets)


def _each(*values: str) -> tuple[tuple[str, ...], ...]:
    return tuple((value,) for value in values)


RUNNING = _gauge("vllm:num_requests_running", "Running sequences.")
WAITING = _gauge("vllm:num_requests_waiting", "Waiting sequences, preempted ones included.")
WAITING_BY_REASON = _gauge(
    "vllm:num_requests_waiting_by_reason",
    "The same by reason: capacity = no free blocks or too many running sequences; deferred = always 0 here.",
    ("reason",),
    _each("capacity", "deferred"),
)
SLEEP_STATE = _gauge(
    "vllm:engine_sleep_state",
    "1 for the current state, 0 for the others; an unloaded model is loaded again on demand.",
    ("sleep_state",),
    _each(*AWAKE),
)
KV_USAGE = _gauge("vllm:kv_cache_usage_perc", "Share of the blocks that sequences hold, 0 to 1.")
KV_TOKEN_USAGE = _gauge(
    "kvtheater:kv_cache_token_usage_perc",
    "Share of the slots that hold the K and V of a token of some sequence, 0 to 1.",
)
KV_USAGE_WITH_CACHED = _gauge(
    "kvtheater:kv_cache_usage_with_cached_perc",
    "Share of the blocks that are held, or free with content that a prompt may hit.",
)
CACHE_CONFIG = "vllm:cache_config_info"
CACHE_CONFIG_HELP = "Settings of the KV cache as labels; a series for each combination in present runs."

PROMPT_TOKENS = _counter("vllm:prompt_tokens", "Prompt tokens of requests that were prefilled, cached ones included.")
BY_SOURCE = _counter(
    "vllm:prompt_tokens_by_source",
    "The same by source.",
    ("source",),
    _each("local_compute", "local_cache_hit", "external_kv_transfer"),
)
CACHED_TOKENS = _counter("vllm:prompt_tokens_cached", "Of these, tokens that were cached: in the pool or outside it.")
CACHED_BY_SOURCE = _counter(
    "vllm:prompt_tokens_cached_by_source",
    "Tokens of vllm:prefix_cache_hits and vllm:external_prefix_cache_hits by location: device = the pool, host = CPU "
    "memory, disk.",
    ("source",),
    _each(*SOURCES),
)
RECOMPUTED = _counter(
    "vllm:prompt_tokens_recomputed",
    "Prompts of which all tokens but the last were cached, as vLLM counted them before 0.32.",
)
GENERATION_TOKENS = _counter("vllm:generation_tokens", "Sampled tokens.")
SUCCESS = _counter("vllm:request_success", "Finished sequences.", ("finished_reason",), _each(*FINISHED))
FLOPS = _counter("vllm:estimated_flops_per_gpu", "Floating point operations of all steps, by formula.")
READ_BYTES = _counter(
    "vllm:estimated_read_bytes_per_gpu", "Bytes of weights and KV cache that the steps read, by formula."
)
WRITE_BYTES = _counter("vllm:estimated_write_bytes_per_gpu", "Bytes of KV cache that the steps wrote, by formula.")
NUM_PREEMPTIONS = _counter("vllm:num_preemptions", "Preemptions.")
QUERIES = _counter("vllm:prefix_cache_queries", "Tokens looked up in the prefix cache, at first admissions.")
HITS = _counter("vllm:prefix_cache_hits", "Of these, tokens that were cached.")
EXTERNAL_QUERIES = _counter(
    "vllm:external_prefix_cache_queries",
    "Tokens looked up in the store outside the pool, at first admissions.",
)
EXTERNAL_HITS = _counter("vllm:external_prefix_cache_hits", "Of these, tokens that were loaded.")
EXTERNAL_LOOKUPS = _counter(
    "kvtheater:external_prefix_cache_lookups",
    "The same lookups by verdict: compute = found, but computing was faster.",
    ("verdict",),
    _each(*get_args(ExternalVerdict)),
)
EXTERNAL_BYTES = _counter(
    "kvtheater:external_bytes",
    "Bytes of blocks stored outside the pool and loaded from it, by tier.",
    ("direction", "medium"),
    tuple((direction, medium) for direction in ("store", "load") for medium in get_args(Medium)),
)
PREEMPTIONS = _counter(
    "kvtheater:preemptions",
    "Preemptions by the reason for the victim and by mode.",
    ("reason", "mode"),
    tuple((reason, mode) for reason in get_args(PreemptReason) for mode in get_args(PreemptionMode)),
)
DRAFTS = _counter("vllm:spec_decode_num_drafts", "Proposals of draft tokens that were verified.")
DRAFT_TOKENS = _counter("vllm:spec_decode_num_draft_tokens", "Draft tokens that were verified.")
ACCEPTED_TOKENS = _counter("vllm:spec_decode_num_accepted_tokens", "Draft tokens that were accepted.")
LOST_TOKENS = _counter("kvtheater:preempted_tokens", "Computed tokens that preemptions discarded.")
RECOMPUTED_TOKENS = _counter(
    "kvtheater:recomputed_tokens", "Tokens computed again after preemptions, evicted ones included."
)
EVICTIONS = _counter("kvtheater:evictions", "Blocks evicted from the prefix cache.")
MISSES = _counter(
    "kvtheater:prefix_cache_misses",
    "Lookups at first admissions that hit less than possible, by reason.",
    ("reason",),
    _each(*get_args(LookupReason)),
)
COPIES = _counter("kvtheater:blocks_copied", "Blocks copied before a write because they were shared.")
SWAPPED = _counter(
    "kvtheater:swapped_bytes", "Bytes swapped to CPU memory and back.", ("direction",), _each("out", "in")
)
TRANSFERRED = _counter("kvtheater:transferred_bytes", "Bytes of keys and values transferred between instances.")
FAILED_TRANSFERS = _counter(
    "kvtheater:failed_transfers",
    "Failed transfers of keys and values between instances, by reason.",
    ("reason",),
    _each(*get_args(TransferFault)),
)

TTFT = _histogram(
    "vllm:time_to_first_token_seconds",
    "Time from arrival to the end of the step that sampled the first token.",
    b.TIME_TO_FIRST_TOKEN,
)
ITL = _histogram("vllm:inter_token_latency_seconds", "Time between two tokens of a sequence.", b.INTER_TOKEN_LATENCY)
TPOT = _histogram(
    "vllm:request_time_per_output_token_seconds",
    "(Last token - first token) / (tokens - 1), for finished sequences of two tokens or more.",
    b.INTER_TOKEN_LATENCY,
)
E2E = _histogram("vllm:e2e_request_latency_seconds", "Time from arrival to the end.", b.REQUEST_LATENCY)
QUEUE = _histogram(
    "vllm:request_queue_time_seconds", "Time from the engine's queue to the step that admitted it.", b.REQUEST_LATENCY
)
PREFILL = _histogram(
    "vllm:request_prefill_time_seconds",
    "Time from the start of that step to the first token, or to the end of the prompt on a prefill instance.",
    b.REQUEST_LATENCY,
)
DECODE = _histogram("vllm:request_decode_time_seconds", "Time from the first token to the last.", b.REQUEST_LATENCY)
INFERENCE = _histogram("vllm:request_inference_time_seconds", "Time of prefill and decode together.", b.REQUEST_LATENCY)
REQUEST_PROMPT = _histogram("vllm:request_prompt_tokens", "Prompt tokens of a finished sequence.", TOKENS)
REQUEST_GENERATION = _histogram("vllm:request_generation_tokens", "Sampled tokens of a finished sequence.", TOKENS)
REQUEST_COMPUTED = _histogram(
    "vllm:request_prefill_kv_computed_tokens",
    "Computed prompt tokens of a finished sequence, without cached ones.",
    TOKENS,
)
REQUEST_PREEMPTIONS = _histogram(
    "vllm:request_num_preemptions", "Preemptions of a finished sequence.", b.REQUEST_PREEMPTIONS
)
ITERATION_TOKENS = _histogram("vllm:iteration_tokens_total", "Tokens computed in a step.", b.ITERATION_TOKENS)
MAX_GENERATION = _histogram(
    "vllm:request_max_num_generation_tokens", "Tokens of the longest output of a finished request.", TOKENS
)
REQUEST_N = _histogram("vllm:request_params_n", "The n of a finished request.", b.REQUEST_N)
REQUEST_MAX_TOKENS = _histogram("vllm:request_params_max_tokens", "The max_tokens of a finished sequence.", TOKENS)
LIFETIME = _histogram(
    "vllm:kv_block_lifetime_seconds", "Time from a block's allocation to its eviction.", b.KV_BLOCK_RESIDENCY
)
IDLE = _histogram(
    "vllm:kv_block_idle_before_evict_seconds",
    "Time from a block's allocation or last hit to its eviction.",
    b.KV_BLOCK_RESIDENCY,
)
REUSE_GAP = _histogram(
    "vllm:kv_block_reuse_gap_seconds",
    "Times between the last four hits of an evicted block.",
    b.KV_BLOCK_RESIDENCY,
)
TRANSFER_TIME = _histogram(
    "kvtheater:transfer_time_seconds",
    "Duration of a transfer of keys and values from another instance.",
    b.REQUEST_LATENCY,
)
WAITED = _histogram(
    "kvtheater:request_lane_time_seconds",
    "Time in the queue of the client, from arrival to the engine's queue.",
    b.REQUEST_LATENCY,
)

METRICS = tuple(metric for metric in list(globals().values()) if isinstance(metric, Metric))
