"""Table of metrics with unit, better direction, source and formula.

`clock`: seconds, or a rate per second; differs between runs. `count`: computed from the log's records without a clock;
the same on every machine, unless requests arrive by the clock. The titles are in `words/`, one file per language.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Literal, NamedTuple

from engine.bench import formulas as f
from engine.bench.formulas import Formula, of_work
from engine.bench.text import Text

MetricSource = Literal["clock", "count"]
Better = Literal["higher", "lower"]


class Metric(NamedTuple):
    """Row of the table."""

    name: str
    unit: str
    better: Better | None
    source: MetricSource
    of: Formula

    @property
    def title(self) -> Text:
        """Title of the metric."""
        return TITLES[self.name]


TABLE = [
    Metric("seconds", "s", "lower", "clock", lambda m, _: m.seconds),
    Metric("output_tokens_per_second", "tokens/s", "higher", "clock", f.output_tokens_per_second),
    Metric("requests_per_second", "requests/s", "higher", "clock", f.requests_per_second),
    Metric(
        "prefill_tokens_per_second",
        "tokens/s",
        "higher",
        "clock",
        of_work(lambda w: f.share(w.prefill_tokens, w.prefill_seconds)),
    ),
    Metric(
        "decode_tokens_per_second",
        "tokens/s",
        "higher",
        "clock",
        of_work(lambda w: f.share(w.decode_tokens, w.decode_seconds)),
    ),
    Metric("decode_step_seconds", "s", "lower", "clock", of_work(f.decode_step_seconds)),
    Metric("decode_roofline_seconds", "s", None, "clock", f.roofline_seconds("decode")),
    Metric("decode_roofline_share", "share", "higher", "clock", f.roofline_share("decode")),
    Metric("prefill_step_seconds", "s", "lower", "clock", of_work(f.prefill_step_seconds)),
    Metric("prefill_roofline_seconds", "s", None, "clock", f.roofline_seconds("prefill")),
    Metric("prefill_roofline_share", "share", "higher", "clock", f.roofline_share("prefill")),
    Metric("bandwidth_share", "share", "higher", "clock", f.bandwidth_share),
    Metric("decode_schedule_seconds", "s", "lower", "clock", f.decode_part("schedule")),
    Metric("decode_prepare_seconds", "s", "lower", "clock", f.decode_part("prepare")),
    Metric("decode_forward_seconds", "s", "lower", "clock", f.decode_part("forward")),
    Metric("decode_sample_seconds", "s", "lower", "clock", f.decode_part("sample")),
    Metric("decode_record_seconds", "s", "lower", "clock", f.decode_part("record")),
    Metric("own_share", "share", "lower", "clock", of_work(f.own_share)),
    Metric("ttft_p50", "s", "lower", "clock", f.ttft(50)),
    Metric("ttft_p90", "s", "lower", "clock", f.ttft(90)),
    Metric("ttft_p99", "s", "lower", "clock", f.ttft(99)),
    Metric("tpot_p50", "s", "lower", "clock", f.tpot(50)),
    Metric("tpot_p90", "s", "lower", "clock", f.tpot(90)),
    Metric("tpot_p99", "s", "lower", "clock", f.tpot(99)),
    Metric("itl_p50", "s", "lower", "clock", f.itl(50)),
    Metric("itl_p90", "s", "lower", "clock", f.itl(90)),
    Metric("itl_p99", "s", "lower", "clock", f.itl(99)),
    Metric("itl_max", "s", "lower", "clock", f.itl_max),
    Metric("late_ttft", "s", "lower", "clock", f.late_ttft),
    Metric("goodput", "requests/s", "higher", "clock", f.goodput),
    Metric("slo_attainment", "share", "higher", "clock", f.slo_attainment),
    Metric("steps", "steps", "lower", "count", of_work(lambda w: w.num_steps)),
    Metric("computed_tokens", "tokens", "lower", "count", of_work(lambda w: w.computed_tokens)),
    Metric("flops", "FLOP", "lower", "count", of_work(lambda w: w.flops)),
    Metric("bytes_moved", "B", "lower", "count", of_work(lambda w: w.bytes_moved)),
    Metric("kv_read_bytes", "B", "lower", "count", of_work(lambda w: w.kv_read_bytes)),
    Metric("kv_bytes_per_token", "B", "lower", "count", of_work(lambda w: w.kv_bytes_per_token)),
    Metric("waste", "share", "lower", "count", of_work(lambda w: f.share(w.slots_wasted, w.slots_held))),
    Metric("peak_blocks", "blocks", "lower", "count", of_work(lambda w: w.peak_blocks)),
    Metric("peak_kv_bytes", "B", "lower", "count", of_work(lambda w: w.peak_bytes)),
    Metric("resident_bytes", "B", "lower", "clock", lambda m, _: m.resident_bytes),
    Metric("resident_loaded_bytes", "B", "lower", "clock", lambda m, _: m.resident_loaded_bytes),
    Metric("peak_running", "sequences", "higher", "count", of_work(lambda w: w.peak_running)),
    Metric("refused_at_step", "step", "higher", "count", of_work(lambda w: w.refused_at_step)),
    Metric("preemptions", "times", "lower", "count", of_work(lambda w: w.preemptions)),
    Metric("recomputed_tokens", "tokens", "lower", "count", of_work(lambda w: w.recomputed_tokens)),
    Metric("swapped_bytes", "B", "lower", "count", of_work(lambda w: w.swapped_bytes)),
    Metric("hit_rate", "share", "higher", "count", of_work(lambda w: f.share(w.hit_tokens, w.queried_tokens))),
    Metric("cpu_hit_rate", "share", "higher", "clock", f.external_share("cpu")),
    Metric("disk_hit_rate", "share", "higher", "clock", f.external_share("disk")),
    Metric("loaded_bytes", "B", None, "clock", of_work(lambda w: w.loaded_bytes)),
    Metric("stored_bytes", "B", "lower", "clock", of_work(lambda w: w.stored_bytes)),
    Metric("chose_compute", "times", None, "clock", of_work(lambda w: w.chose_compute)),
    Metric("load_over_estimate_p50", "share", None, "clock", f.over_estimate("loads", 50)),
    Metric("load_over_estimate_p90", "share", "lower", "clock", f.over_estimate("loads", 90)),
    Metric("prefill_over_estimate_p50", "share", None, "clock", f.over_estimate("prefills", 50)),
    Metric("prefill_over_estimate_p90", "share", "lower", "clock", f.over_estimate("prefills", 90)),
    Metric("rejected", "requests", None, "clock", f.rejected),
    Metric("idle_share", "share", None, "clock", f.idle_share()),
    Metric("prefill_idle_share", "share", None, "clock", f.idle_share("prefill")),
    Metric("decode_idle_share", "share", None, "clock", f.idle_share("decode")),
    Metric("transferred_bytes", "B", None, "clock", f.of_transfers(lambda w: w.moved_bytes)),
    Metric("transfer_p50", "s", "lower", "clock", f.of_transfers(lambda w: f.percentile(w.move_seconds, 50))),
    Metric("transfer_p90", "s", "lower", "clock", f.of_transfers(lambda w: f.percentile(w.move_seconds, 90))),
    Metric("failed_transfers", "times", "lower", "clock", f.of_transfers(lambda w: w.failed_transfers)),
    Metric(
        "saved_by_sharing",
        "share",
        "higher",
        "count",
        of_work(lambda w: f.share(w.tokens_logical - w.tokens_held, w.tokens_logical)),
    ),
    Metric("nll", "nats", "lower", "count", f.nll),
    Metric("output_nll", "nats", "lower", "count", of_work(f.output_nll)),
    Metric("full_nll", "nats", "lower", "count", of_work(f.full_nll)),
    Metric("divergence", "nats", "lower", "count", of_work(f.divergence)),
    Metric("choices_changed", "share", "lower", "count", of_work(f.choices_changed)),
    Metric("forgotten_keys", "keys", None, "count", of_work(lambda w: w.forgotten)),
    Metric("freed_blocks", "blocks", "higher", "count", of_work(lambda w: w.freed_blocks)),
    Metric("logprob_error", "nats", "lower", "count", f.logprob_error),
    Metric("tokens_equal", "share", "higher", "count", f.tokens_equal),
]


def _titles() -> dict[str, Text]:
    folder = files("engine.bench").joinpath("words")
    en, zh = (json.loads(folder.joinpath(f"{language}.json").read_text(encoding="utf-8")) for language in ("en", "zh"))
    return {metric.name: Text(en=en[metric.name], zh=zh[metric.name]) for metric in TABLE}


# metrics that need this machine's measured roofs
NEED_ROOFS = {"bandwidth_share"} | {metric.name for metric in TABLE if "_roofline_" in metric.name}
METRICS: dict[str, Metric] = {metric.name: metric for metric in TABLE}
TITLES = _titles()
