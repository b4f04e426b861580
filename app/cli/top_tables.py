"""Screen of `kvtheater top`: a server's metrics as tables, each within 80 columns."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from engine.observe.monitor.metrics import MetricsReading

Numbers = dict[str, float]  # metric name, as the server reports it -> value
Ranks = list[tuple[int, Numbers, Numbers]]  # rank, its current numbers, and the previous ones or {} (see `baseline`)

BAR = 24  # columns
UNKNOWN = "unknown"
# metric names of vLLM, SGLang and this program
RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs")
WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs")
BLOCKS = ("vllm:kv_cache_usage_perc",)
TOKENS = ("kvtheater:kv_cache_token_usage_perc", "sglang:token_usage")
EVICTIONS = ("kvtheater:evictions_total",)
PREEMPTIONS = ("vllm:num_preemptions_total",)
HITS, QUERIES = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
PROMPT = ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total")
GENERATED = ("vllm:generation_tokens_total", "sglang:generation_tokens_total")
BY_REASON = re.compile(r'preemptions\w*_total\{(?=.*reason=")(.*)\}$')
CLIENT_WAITING = re.compile(r'^kvtheater:lane_requests_waiting\{client="(.*)"\}$')


def draw(url: str, now: MetricsReading, before: MetricsReading | None, seconds: float, notice: str = "") -> Group:
    """Return the screen. Unreported values are unknown. Rates are those since the reading `before`, `seconds` ago.

    `notice`: a message about the readings themselves.
    """
    from rich.console import Group
    from rich.text import Text

    pool = f"{now.num_blocks:,} blocks of {now.block_size} tokens" if now.num_blocks and now.block_size else UNKNOWN
    parts = [Text(f"{now.model or url} · pool of a rank: {pool}")]
    if notice:
        parts.append(Text(notice, style="bold"))
    if not now.by_rank:
        return Group(*parts, Text("no metrics yet: nothing has run there"))
    ranks: Ranks = [
        (rank, numbers, baseline(numbers, before.by_rank.get(rank, {}) if before else {}))
        for rank, numbers in sorted(now.by_rank.items())
    ]
    tables = (_pools(ranks, seconds), _requests(ranks, seconds), _reasons(ranks), _clients(ranks))
    return Group(*parts, *(table for table in tables if table is not None))


def baseline(numbers: Numbers, last: Numbers) -> Numbers:
    """Return `last`, or {} if a counter fell or is missing: the server has restarted and counts from 0 again."""
    return {} if any(value > numbers.get(name, -1.0) for name, value in last.items() if "_total" in name) else last


def _table(*columns: tuple[str, bool]) -> Table:
    """Return a table. `columns`: name, and whether the cells are numbers."""
    from rich.table import Table

    table = Table()
    for name, is_number in columns:
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    return table


def _pools(ranks: Ranks, seconds: float) -> Table:
    table = _table(("rank", True), ("held by blocks", False), ("by tokens", True), ("evictions", True), ("/s", True))
    for rank, now, last in ranks:
        evictions = _rate(EVICTIONS, now, last, seconds)
        table.add_row(str(rank), _bar(_of(BLOCKS, now)), _percent(_of(TOKENS, now)), _count(EVICTIONS, now), evictions)
    return table


def _requests(ranks: Ranks, seconds: float) -> Table:
    names = ("rank", "running", "waiting", "hits", "preemptions", "prompt/s", "generated/s")
    table = _table(*((name, True) for name in names))
    for rank, now, last in ranks:
        table.add_row(
            str(rank),
            _count(RUNNING, now),
            _count(WAITING, now),
            _share(now, last),
            _count(PREEMPTIONS, now),
            _rate(PROMPT, now, last, seconds),
            _rate(GENERATED, now, last, seconds),
        )
    return table


def _reasons(ranks: Ranks) -> Table | None:
    """Return the preemptions of all ranks by reason; None if the server reports no reasons or no preemptions."""
    counts: Counter[str] = Counter()
    for _, now, _ in ranks:
        for name, value in now.items():
            if value and (found := BY_REASON.search(name)):
                counts[", ".join(re.findall(r'"([^"]*)"', found[1]))] += int(value)
    if not counts:
        return None
    table = _table(("preempted, how and why", False), ("sequences", True))
    for reason, count in counts.most_common():
        table.add_row(reason, f"{count:,}")
    return table


def _clients(ranks: Ranks) -> Table | None:
    """Return the clients' queues, longest first; None if the server has none, or all are empty."""
    values = [(name, value) for _, now, _ in ranks for name, value in now.items()]
    clients = [(found[1], value) for name, value in values if (found := CLIENT_WAITING.match(name))]
    if not any(value for _, value in clients):
        return None
    table = _table(("client", False), ("waiting for its turn", True))
    for client, value in sorted(clients, key=lambda row: (-row[1], row[0])):
        table.add_row(client, f"{value:,.0f}")
    return table


def _of(names: tuple[str, ...], numbers: Numbers) -> float | None:
    return next((numbers[name] for name in names if name in numbers), None)


def _bar(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    full = round(BAR * min(max(share, 0.0), 1.0))
    return f"{'█' * full}{'░' * (BAR - full)} {share:6.1%}"


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.1%}"


def _count(names: tuple[str, ...], numbers: Numbers) -> str:
    value = _of(names, numbers)
    return UNKNOWN if value is None else f"{value:,.0f}"


def _share(numbers: Numbers, last: Numbers) -> str:
    """Return hit over queried tokens, since the previous reading or, without new queries, since the server's start."""
    if HITS not in numbers or QUERIES not in numbers:
        return UNKNOWN
    hits, queries = (numbers[name] - last.get(name, 0.0) for name in (HITS, QUERIES))
    if queries <= 0:
        hits, queries = numbers[HITS], numbers[QUERIES]
    return f"{hits / queries:.1%}" if queries > 0 else "–"


def _rate(names: tuple[str, ...], numbers: Numbers, last: Numbers, seconds: float) -> str:
    now, then = _of(names, numbers), _of(names, last)
    if now is None:
        return UNKNOWN
    return "–" if then is None or seconds <= 0 else f"{(now - then) / seconds:,.0f}"
