"""Records as Markdown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from engine.bench.code import step_code_hash
from engine.bench.gains import gain
from engine.bench.quiet import QUIET
from engine.bench.record import Figure, Finding, Point, Record
from engine.bench.scenario import Case, VariantSpec, find_scenario, scenario_ids
from engine.bench.text import Text

Language = Literal["en", "zh"]
START, END = "<!-- measured -->", "<!-- /measured -->"  # table of the leading headlines
ALL_START, ALL_END = "<!-- all measured -->", "<!-- /all measured -->"  # table of all headlines
_WORDS = {
    "headlines": ("what was measured", "测量内容"),
    "result": ("result", "结果"),
    "value": ("value [95 % interval]", "数值 [95% 区间]"),
    "bar": ("bar", "目标"),
    "met": ("met", "达到"),
    "not met": ("not met", "未达到"),
    "variant": ("variant", "变体"),
    "failed": ("did not run", "未能运行"),
    "tokens": ("outputs differ from the reference's", "输出与参照不同"),
    "stopped": ("stopped early", "提前停止"),
    "others": ("others used", "其他程序占用"),
    "older": ("Measured before the code of a step last changed", "在单步代码最近一次改动之前测量"),
    "scenario": ("scenario", "场景"),
    "busy": (
        "Others used more than a tenth of a CPU while these ran (CPUs)",
        "运行期间其他程序占用超过十分之一个 CPU（CPU 数）",
    ),
    "round": ("round", "轮"),
    "rounds": ("rounds", "轮"),
}


def summary(records: list[Record], language: Language = "en") -> str:
    """Return a table with the headlines of all records and their bars."""
    word = _word(language)
    heads = [word(name) for name in ("scenario", "headlines", "result", "value", "bar")]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for record in records:
        for finding in record.findings:
            value = _with_interval(finding.value, finding.low, finding.high, finding.unit)
            cells = [record.scenario.id, _text(finding.title, language), _gain(record, finding, language), value]
            lines.append(f"| {' | '.join(cells)} | {_bar(finding, language)} |")
    return "\n".join(lines) + "\n"


def leading(records: list[Record], language: Language = "en") -> str:
    """Return a short table of the leading headlines."""
    word = _word(language)
    lines = [f"| {word('headlines')} | {word('result')} | {word('bar')} |", "|---|---|---|"]
    found: list[tuple[int, Record, Finding]] = []
    for record in records:
        if record.scenario.id in scenario_ids():
            places = {headline.title: headline.leads for headline in find_scenario(record.scenario.id).headlines}
            found += [(place, record, f) for f in record.findings if (place := places.get(f.title, 0))]
    for _, record, finding in sorted(found, key=lambda one: one[0]):
        value = _with_interval(finding.value, finding.low, finding.high, finding.unit)
        text = _gain(record, finding, language)
        result = f"**{text}**: {value}" if text else f"**{value}**"
        lines.append(f"| {_text(finding.title, language)} | {result} | {_bar(finding, language)} |")
    return "\n".join(lines) + "\n"


def _gain(record: Record, finding: Finding, language: Language) -> str:
    """Return a ratio in words; "" if the finding is not a ratio."""
    metric = record.metrics.get(finding.metric)
    if finding.unit != "×" or metric is None:
        return ""
    verdict = gain(finding.metric, metric.unit, metric.better, finding.value, finding.low, finding.high)
    mark = "" if verdict.good is None else "▲ " if verdict.good else "▼ "
    return mark + verdict.text(language)


def _bar(finding: Finding, language: Language) -> str:
    """Return the target and whether it is met; "" without one."""
    if not finding.bar:
        return ""
    sign, _, number_ = finding.bar.partition(" ")
    share = finding.unit == "share" and sign in ("≥", "≤")
    bar = f"{sign} {float(number_) * 100:g} %" if share else finding.bar
    word = _word(language)
    return f"{bar}: {word('met')} ✓" if finding.met else f"{bar}: {word('not met')} ✗"


def details(record: Record, language: Language = "en") -> str:
    """Return a section with the expectation, the machine, and a table per metric."""
    word, scenario = _word(language), record.scenario
    lines = [
        f"## {_text(scenario.title, language)}",
        "",
        _text(scenario.text, language),
        "",
        _conditions(record, language),
        "",
    ]
    if record.findings:
        lines += [summary([record], language)]
    axis = _text(scenario.axis.title, language)
    cases = scenario.axis.points()
    for name, info in record.metrics.items():
        lines += [f"**{_text(info.title, language)}**" + (f", {info.unit}" if info.unit else ""), ""]
        lines += [f"| {axis} | " + " | ".join(_text(v.title, language) for v in scenario.variants) + " |"]
        lines += ["|---" * (1 + len(scenario.variants)) + "|"]
        for case in cases:
            cells = [_cell(record, case, variant, name) for variant in scenario.variants]
            lines.append(f"| {_text(case.title, language) if case.title else case.value} | " + " | ".join(cells) + " |")
        lines.append("")
    titles = {variant.id: _text(variant.title, language) for variant in scenario.variants}
    failures: dict[tuple[str, str], None] = {}
    for point in record.points:
        if point.failed:
            failures[(titles[point.variant], point.failed)] = None
    lines += [f"- {title}: {word('failed')}: {why}" for title, why in failures]
    lines += [
        f"- {titles[point.variant]}, {point.at}: {word('tokens')}"
        for point in record.points
        if point.tokens_identical is False
    ]
    return "\n".join(lines).rstrip() + "\n"


def machines(records: list[Record]) -> str:
    """Return the machines and versions of the records.

    If they differ, each line lists its scenarios with day and commit.
    """
    scenarios: dict[str, list[str]] = {}  # by machine
    for record in records:
        day, commit = record.environment.created[:10], (record.environment.commit or "")[:8]
        name = f"{record.scenario.id} ({', '.join(filter(None, (day, commit)))})"
        scenarios.setdefault(machine_line(record), []).append(name)
    if len(scenarios) == 1:
        return f"{next(iter(scenarios))}."
    return "\n".join(f"- {line}: {', '.join(names)}" for line, names in scenarios.items())


def _leads(record: Record) -> bool:
    return record.scenario.id in scenario_ids() and any(
        headline.leads for headline in find_scenario(record.scenario.id).headlines
    )


def machine_line(record: Record) -> str:
    """Return the machine and versions in one line."""
    machine = record.environment.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    threads = f"{record.environment.num_cpus} CPUs, {machine.num_threads} threads"
    dtype = "dtype auto" if record.scenario.dtype == "auto" else record.scenario.dtype
    return f"{machine.processor or machine.device}, {threads}, {dtype}, {versions}"


def caveats(records: list[Record], language: Language = "en") -> str:
    """Return a note on records made on a busy machine or stopped early, or ""."""
    word = _word(language)
    noisy = [(r.scenario.id, r.environment.busy_cpus) for r in records if (r.environment.busy_cpus or 0) > QUIET]
    parts = [f"{word('busy')}: " + ", ".join(f"{name} ({busy:.2f})" for name, busy in noisy) + "."] if noisy else []
    stopped = [f"{r.scenario.id} ({r.rounds} {word('rounds')})" for r in records if not r.complete]
    parts += [f"{word('stopped').capitalize()}: " + ", ".join(stopped) + "."] if stopped else []
    return " ".join(parts)


def insert(document: str, records: list[Record], language: Language = "en") -> str | None:
    """Return the document with the short or long table between its marks replaced; None if it has no marks."""
    for start, end, table in ((START, END, leading), (ALL_START, ALL_END, summary)):
        before, begins, rest = document.partition(start)
        _, ends, after = rest.partition(end)
        if begins and ends:
            used = [record for record in records if _leads(record)] if table is leading else records
            parts = [machines(used), caveats(used, language), table(records, language)]
            return before + begins + "\n" + "\n\n".join(filter(None, parts)) + ends + after
    return None


def _conditions(record: Record, language: Language) -> str:
    word, environment = _word(language), record.environment
    parts = [
        machine_line(record),
        environment.created,
        f"seed {environment.seed}",
        f"{record.rounds} {word('round' if record.rounds == 1 else 'rounds')}",
    ]
    if environment.commit:
        parts.append(f"commit {environment.commit[:10]}" + ("+" if environment.modified else ""))
    if environment.busy_cpus is not None:
        parts.append(f"{word('others')} {environment.busy_cpus:.2f} CPU")
    if not record.complete:
        parts.append(word("stopped"))
    if environment.code != step_code_hash():
        parts.append(word("older").lower())
    return "; ".join(parts) + f". `{environment.command}`"


def _cell(record: Record, case: Case, variant: VariantSpec, metric: str) -> str:
    point: Point | None = record.point(case.value, variant.id)
    figure: Figure | None = point.figures.get(metric) if point else None
    if figure is None:
        return "–"
    text = number(figure.median)
    if figure.low != figure.high:
        text += f" [{number(figure.low)}, {number(figure.high)}]"
    ratios = [r for name, r in figure.ratios.items() if name != variant.id]
    return text + "".join(f" ({r.median:.2f}×)" for r in ratios[:1])


def _with_interval(value: float, low: float | None, high: float | None, unit: str) -> str:
    percent = unit == "share"
    texts = [f"{v * 100:.1f}" if percent else number(v) for v in (value, low, high) if v is not None]
    text = texts[0] + (f" [{texts[1]}, {texts[2]}]" if len(texts) == 3 and texts[1] != texts[2] else "")
    return f"{text} {'%' if percent else unit}".rstrip()


def number(value: float) -> str:
    """Format a number with three significant digits and thousands separators."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6:
        return f"{value:.3g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _text(text: Text, language: Language) -> str:
    return text.zh if language == "zh" else text.en


def _word(language: Language) -> Callable[[str], str]:
    return lambda name: _WORDS[name][language == "zh"]
