"""Python and the page say a ratio in the same words, in both languages."""

import json

from engine.bench.gains import gain
from engine.bench.metrics import METRICS, Better
from engine.bench.record import RESULTS, read_record
from tests.js.node_run import node_output

Case = tuple[str, str, Better | None, float, float | None, float | None]
RATIOS = [0, 0.001, 0.0066, 0.0899, 0.09, 0.1, 0.125, 0.2, 0.242, 0.25, 0.297, 1 / 3, 0.35, 0.5, 0.51, 0.66, 0.74]
RATIOS += [0.9, 0.994, 0.996, 1, 1.004, 1.0055, 1.05, 1.25, 1.9, 1.995, 2, 2.05, 5.05, 9.94, 9.96, 10.5, 151, 12345]


def test_the_page_says_a_ratio_as_python_does() -> None:
    cases: list[Case] = [(m.name, m.unit, m.better, ratio, None, None) for m in METRICS.values() for ratio in RATIOS]
    cases += [("seconds", "s", "lower", 0.9, low, high) for low, high in ((0.8, 1.1), (0.8, 0.95), (0.9, 0.9))]
    for path in sorted(RESULTS.glob("*.json")):
        if "_" not in path.stem:  # those with one are of the page, not of a scenario
            for point in (record := read_record(path)).points:
                for metric, figure in point.figures.items():
                    info = record.metrics[metric]
                    for ratio in figure.ratios.values():
                        cases.append((metric, info.unit, info.better, ratio.median, ratio.low, ratio.high))
    assert len(cases) > 2000
    output = node_output("gains_dump.mjs", given="\n".join(json.dumps(one) for one in cases))
    for one, line in zip(cases, output.splitlines(), strict=True):
        verdict = gain(*one)
        assert json.loads(line) == [verdict.good, verdict.text("en"), verdict.text("zh")], one
