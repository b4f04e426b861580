"""Reads the Prometheus metrics of a server: values by name, and its cache settings."""

from __future__ import annotations

import http.client
import math
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field

import msgspec
from prometheus_client.parser import text_string_to_metric_families

OWN = "kvtheater:"
PREFIXES = ("vllm:", "sglang:", OWN)
MAX_BYTES = 8 * 1024 * 1024
SECONDS = 2.0  # timeout
NUMBERS = ("gauge", "counter")
CACHE = "vllm:cache_config_info"
ALIGNMENT = "cache_hit_alignment_tokens"
CACHING = "enable_prefix_caching"
RANK_LABELS = ("engine", "model_name")  # labels that identify rank and model


class MetricsError(ValueError):
    """The metrics cannot be read."""


@dataclass(slots=True)
class MetricsReading:
    """Metrics of a server at one time. `by_rank`: data-parallel rank -> name -> value."""

    model: str = ""
    block_size: int | None = None  # tokens
    num_blocks: int | None = None  # per rank
    by_rank: dict[int, dict[str, float]] = field(default_factory=dict)


def read_metrics(url: str) -> MetricsReading:
    """Read the metrics.

    Raises:
        MetricsError: the server does not answer, or the response is not a metrics page.
    """
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            text = answer.read(MAX_BYTES + 1)
    except (
        OSError,
        ValueError,
        http.client.HTTPException,
    ) as error:  # the last if the connection ends early
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise MetricsError(f"no metrics from {url}: {str(reason) or type(reason).__name__}") from error
    if len(text) > MAX_BYTES:
        raise MetricsError(f"the metrics of {url} are longer than {MAX_BYTES >> 20} MiB")
    return parse_metrics(text.decode("utf-8", "replace"))


def server_version(url: str) -> str | None:
    """Return the version that the server reports at `/version`, or None."""
    try:
        with urllib.request.urlopen(urllib.parse.urljoin(url, "/version"), timeout=SECONDS) as answer:
            body = msgspec.json.decode(answer.read(MAX_BYTES))
    except (OSError, ValueError, http.client.HTTPException):
        return None
    version = body.get("version") if isinstance(body, dict) else None
    return version[:80] if isinstance(version, str) else None


def parse_metrics(text: str) -> MetricsReading:
    """Parse a metrics page. If the server has several models, only the first model's metrics are returned.

    Raises:
        MetricsError: it is not a metrics page.
    """
    found = MetricsReading()
    try:
        for family in text_string_to_metric_families(text):
            if not family.name.startswith(PREFIXES):
                continue
            for sample in family.samples:
                labels = sample.labels
                model = labels.get("model_name", "")
                found.model = found.model or model
                if model not in ("", found.model) or (not model and sample.name.startswith(OWN)):
                    continue  # metrics of another model, or of no engine
                if sample.name == CACHE:
                    found.block_size = _whole(labels.get("block_size"))
                    found.num_blocks = _whole(labels.get("num_gpu_blocks"))
                    rank = _whole(labels.get("engine")) or 0
                    found.by_rank.setdefault(rank, {}).update(_settings(labels))
                elif family.type in NUMBERS and not sample.name.endswith("_created") and math.isfinite(sample.value):
                    rank = _whole(labels.get("engine")) or 0
                    found.by_rank.setdefault(rank, {})[_name(sample.name, labels)] = sample.value
    except ValueError as error:
        raise MetricsError(f"not a page of metrics: {error}") from error
    return found


def _settings(labels: dict[str, str]) -> dict[str, float]:
    """Return the cache settings that affect hits, as numbers by 'series.label'."""
    found = {ALIGNMENT: _whole(labels.get(ALIGNMENT))}
    if (caching := labels.get(CACHING)) in ("True", "False"):
        found[CACHING] = int(caching == "True")
    return {f"{CACHE}.{label}": float(value) for label, value in found.items() if value is not None}


def _name(name: str, labels: dict[str, str]) -> str:
    more = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()) if key not in RANK_LABELS)
    return f"{name}{{{more}}}" if more else name


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
