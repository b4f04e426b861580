"""Scenario: a benchmark declared in a file, with its workload, its variants and its metrics.

The file is TOML. `[workload]`, `[engine]` and `[sampling]` are the base; each point of the `[axis]` and each variant
replaces settings by dotted path (`"engine.block_size" = 4`, or a whole table, `workload = {…}`).

A headline with several points or baselines (`at`, `against`) is expanded to one headline for each. In a title, `{at}`
and `{against}` are replaced by the name in `[names]`, or else by the title, of the point and the baseline.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from engine.bench.errors import BenchError
from engine.bench.measurement import Observer
from engine.bench.metrics import METRICS
from engine.bench.peers import PEERS
from engine.bench.text import Text
from engine.bench.tiers import TierSizes
from engine.bench.workload import Workload
from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.connector.tiers.settings import SettingError
from engine.model.naming import model_name
from engine.options.refusal import sentence
from engine.options.toml_text import decode_toml
from engine.trace.goodput import SLO

SCENARIOS = Path(__file__).parent / "scenarios"
Value = int | float | str
Settings = dict[str, Any]  # dotted path -> replacement value


class Axis(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Axis of a scenario. Each of `values` is assigned to the paths in `sets`; `cases` have their own settings."""

    name: str
    title: Text
    unit: str = ""
    scale: Literal["linear", "log", "category"] = "linear"
    sets: list[str] = []
    values: list[Value] = []
    cases: list[Case] = []

    def points(self) -> list[Case]:
        """Return every point of the axis with its settings."""
        if self.cases:
            return self.cases
        return [Case(value=value, set=dict.fromkeys(self.sets, value)) for value in self.values]


class Case(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Point of an axis."""

    value: Value
    title: Text | None = None
    set: Settings = {}


class VariantSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Curve of a scenario: the engine with these settings, or a peer."""

    id: str
    title: Text
    set: Settings = {}
    peer: str | None = None
    apart: bool = False  # run in a separate process and measure its memory; some peers always do


class Headline(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Key result of a scenario: a metric of a variant at a point, absolute or against a baseline.

    `saturates`: instead of the metric, the smallest axis value that reaches this share of the variant's best.
    `off_a_line`: instead of the metric, its distance from the best-fitting straight line over the axis.
    """

    title: Text
    metric: str
    variant: str
    at: Value | None = None
    against: str | None = None
    saturates: float | None = None
    off_a_line: bool = False
    at_least: float | None = None  # bar: minimum
    at_most: float | None = None
    agrees: bool = False  # bar: the interval of the ratio contains 1
    within: float | None = None  # bar: |ratio - 1| is at most this
    leads: int = 0  # rank in the short table of leading headlines; 0: not in it


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Contents of a scenario file. `text` says what to expect and why."""

    id: str
    title: Text
    text: Text
    workload: dict[str, Any]
    axis: Axis
    variants: list[VariantSpec]
    measure: list[str]
    model: str = "bundled"
    dtype: str = "float32"
    engine: dict[str, Any] = {}
    sampling: dict[str, Any] = {}
    tiers: dict[str, Any] = {}  # outside the pool, initially empty: `TierSizes`
    observer: Observer = "none"
    baselines: list[str] = []  # variants with which the others are compared at each point
    compare_tokens: bool = True  # whether outputs must equal those of the first baseline (or first variant)
    headlines: list[Headline] = []
    slo: SLO | None = None
    rounds: int = 7
    seed: int = 0
    needs_gpu: bool = False  # refuse to run on a CPU


class Cell(Struct, frozen=True, kw_only=True):
    """Variant at a point of the axis, with all settings of a run."""

    point: int  # index on the axis
    variant: str
    peer: str | None
    apart: bool
    model: str
    dtype: str
    workload: Workload
    engine: EngineConfig
    sampling: SamplingParams
    tiers: TierSizes
    observer: Observer


_ROOTS = ("model", "dtype", "observer", "workload", "engine", "sampling", "tiers")


def cell_of(scenario: Scenario, point: int, variant: VariantSpec) -> Cell:
    """Return the base settings, overridden by the point's settings and then the variant's.

    Raises:
        BenchError: an unknown path or value.
    """
    case = scenario.axis.points()[point]
    where = f"scenario {scenario.id}, {scenario.axis.name} {case.value}, variant {variant.id}"
    tree: dict[str, Any] = {name: _copy(getattr(scenario, name)) for name in _ROOTS}
    for path, value in (*case.set.items(), *variant.set.items()):
        _put(tree, path, value, where)
    tree["engine"].setdefault("enforce_eager", True)  # compiled code must be requested
    try:
        pool_slots = tree["engine"].pop("pool_slots", None)  # pool size in slots, independent of the block size
        engine = msgspec.convert(tree["engine"], EngineConfig)
        _refuse_unknown(tree["engine"], EngineConfig, f"{where}: engine")
        _refuse_unknown(tree["sampling"], SamplingParams, f"{where}: sampling")
        if pool_slots is not None:
            engine = msgspec.structs.replace(engine, num_blocks=pool_slots // engine.block_size)
        sampling = msgspec.convert({"ignore_eos": True, **tree["sampling"]}, SamplingParams)
        cell = Cell(
            point=point,
            variant=variant.id,
            peer=variant.peer,
            apart=variant.apart,
            model=msgspec.convert(tree["model"], str),
            dtype=msgspec.convert(tree["dtype"], str),
            workload=msgspec.convert(tree["workload"], Workload),  # type: ignore[arg-type]
            engine=msgspec.structs.replace(engine, seed=scenario.seed),
            sampling=sampling.checked(),
            tiers=msgspec.convert(tree["tiers"], TierSizes).checked(),
            observer=msgspec.convert(tree["observer"], Observer),  # type: ignore[arg-type]
        )
        _check_instances(cell)
        return cell
    except (msgspec.ValidationError, ConfigError, SettingError) as error:
        raise BenchError(f"{where}: {error}") from error


def workloads_of(scenario: Scenario) -> list[Workload]:
    """Return the workload of each point and variant."""
    points = range(len(scenario.axis.points()))
    return [cell_of(scenario, point, variant).workload for point in points for variant in scenario.variants]


def _check_instances(cell: Cell) -> None:
    unsupported = {
        "a peer": cell.peer is not None,
        "tiers": cell.tiers != TierSizes(),
        "an observer": cell.observer != "none",
        "compiled code": not cell.engine.enforce_eager,
        "several outputs of a request": cell.sampling.num_sequences > 1,
    }
    used = [name for name, is_used in unsupported.items() if is_used]
    if used and cell.engine.num_instances:
        raise ConfigError(sentence("instances.one_engine", name=used[0]))


def _put(tree: dict[str, Any], path: str, value: Any, where: str) -> None:
    *parents, last = path.split(".")
    if (parents[0] if parents else last) not in _ROOTS:
        raise BenchError(f"{where}: there is no setting {path}; paths begin with one of {', '.join(_ROOTS)}")
    place = tree
    for name in parents:
        place = place[name]
    place[last] = _copy(value)


def _refuse_unknown(given: dict[str, Any], struct: type[Struct], where: str) -> None:
    unknown = set(given) - set(struct.__struct_fields__)
    if unknown:
        raise BenchError(f"{where} has no setting {', '.join(sorted(unknown))}")


def _copy(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else value


def read_scenario(path: Path) -> Scenario:
    """Read a file and check every cell.

    Raises:
        BenchError: the file is invalid; the message says what is wrong and where.
    """
    try:
        tree = decode_toml(path.read_bytes(), dict[str, Any])
        names = msgspec.convert(tree.pop("names", {}), dict[str, Text])
        headlines = msgspec.convert(tree.pop("headlines", []), list[dict[str, Any]])
        scenario = msgspec.convert(tree, Scenario)
        scenario = replace(scenario, headlines=_expand(headlines, scenario, names))
    except OSError as error:
        raise BenchError(f"cannot read {path}: {error.strerror or error}") from error
    except msgspec.DecodeError as error:  # ValidationError is one
        raise BenchError(f"{path.name} is not a scenario: {error}") from error
    check(scenario)
    return scenario


def _expand(headlines: list[dict[str, Any]], scenario: Scenario, names: dict[str, Text]) -> list[Headline]:
    """Expand each headline to one per listed point and baseline."""
    titles: dict[Any, Text | None] = {case.value: case.title for case in scenario.axis.points()}
    titles |= {variant.id: variant.title for variant in scenario.variants} | names
    found = []
    for headline in headlines:
        for at, against in product(_as_list(headline.get("at")), _as_list(headline.get("against"))):
            one = msgspec.convert({**headline, "at": at, "against": against}, Headline)
            en, zh = one.title.en, one.title.zh
            for part, name in (("{at}", titles.get(at)), ("{against}", titles.get(against))):
                if name is not None:
                    en, zh = en.replace(part, name.en), zh.replace(part, name.zh)
            found.append(replace(one, title=Text(en=en, zh=zh)))
    return found


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def check(scenario: Scenario) -> None:
    """Raise BenchError for errors that types cannot find: unknown names, empty axes, impossible cells."""
    ids = [variant.id for variant in scenario.variants]
    values = [case.value for case in scenario.axis.points()]
    problems = [
        (not values, "the axis has no values and no cases"),
        (bool(scenario.axis.cases) and bool(scenario.axis.values), "the axis has both values and cases: remove one"),
        (len(set(values)) < len(values), "the axis has a value twice"),
        (not ids, "there is no variant"),
        (len(set(ids)) < len(ids), "two variants have the same id"),
        (scenario.rounds < 1, "rounds must be at least 1"),
        (not scenario.measure, "nothing is measured"),
    ]
    problems += [(name not in METRICS, f"there is no metric {name}") for name in scenario.measure]
    problems += [(name not in ids, f"the baseline {name} is not a variant") for name in scenario.baselines]
    for variant in scenario.variants:
        known = variant.peer is None or variant.peer in PEERS
        problems.append((not known, f"there is no peer {variant.peer}; there are {', '.join(PEERS)}"))
    for headline in scenario.headlines:
        what = f"headline {headline.title.en!r}"
        num_ways = (headline.at is not None) + (headline.saturates is not None) + headline.off_a_line
        problems += [
            (headline.metric not in scenario.measure, f"{what}: {headline.metric} is not measured"),
            (headline.variant not in ids, f"{what}: {headline.variant} is not a variant"),
            (headline.against not in [None, *scenario.baselines], f"{what}: {headline.against} is not a baseline"),
            (num_ways != 1, f"{what}: give one of at, saturates and off_a_line"),
            (headline.at is not None and headline.at not in values, f"{what}: {headline.at} is not on the axis"),
        ]
    for wrong, text in problems:
        if wrong:
            raise BenchError(f"scenario {scenario.id}: {text}")
    for point in range(len(values)):
        for variant in scenario.variants:
            cell_of(scenario, point, variant)


def find_scenario(name: str) -> Scenario:
    """Return the shipped scenario of that id, or the scenario in a file.

    Raises:
        BenchError: neither exists.
    """
    path = SCENARIOS / f"{name}.toml"
    if path.is_file():
        return read_scenario(path)
    if name.endswith(".toml"):
        return read_scenario(Path(name))
    raise BenchError(f"there is no scenario {name}; there are {', '.join(scenario_ids())}")


def scenario_ids() -> list[str]:
    """Return the ids of the shipped scenarios."""
    return sorted(path.stem for path in SCENARIOS.glob("*.toml"))


def without_paths(scenario: Scenario) -> Scenario:
    """Return the scenario for its record, with names of folders and files instead of paths."""
    axis = replace(scenario.axis, cases=[replace(case, set=_without_paths(case.set)) for case in scenario.axis.cases])
    variants = [replace(variant, set=_without_paths(variant.set)) for variant in scenario.variants]
    workload = {key: _without_path(f"workload.{key}", value) for key, value in scenario.workload.items()}
    return replace(scenario, model=model_name(scenario.model), workload=workload, axis=axis, variants=variants)


def _without_paths(settings: dict[str, Any]) -> dict[str, Any]:
    return {path: _without_path(path, value) for path, value in settings.items()}


def _without_path(path: str, value: Any) -> Any:
    """Return a setting with the name of a file or folder instead of its path."""
    if path == "model":
        return model_name(value)
    return Path(value).name if path == "workload.name" else value
