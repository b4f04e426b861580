"""Ratios in plain language."""

import json
import re
from importlib.resources import files

import pytest

from engine.bench.gains import gain, gain_texts
from engine.bench.metrics import METRICS


def verdict_of(metric: str, ratio: float, *interval: float) -> tuple[str, str, bool | None]:
    """Return English text, Chinese text, and whether the ratio is good."""
    found = gain(metric, METRICS[metric].unit, METRICS[metric].better, ratio, *interval)
    return found.text("en"), found.text("zh"), found.good


@pytest.mark.parametrize(
    ("metric", "ratio", "en", "zh", "good"),
    [
        ("seconds", 0.198, "5.1 times faster", "速度是 5.1 倍", True),  # 1 / 0.198 = 5.05
        ("seconds", 0.2, "5.0 times faster", "速度是 5.0 倍", True),  # five times as fast is 快 4 倍, not 快 5 倍
        ("seconds", 1.25, "20 % slower", "慢 20%", False),  # 1 / 1.25 = 0.8 of the speed
        ("output_tokens_per_second", 2.272, "2.3 times faster", "速度是 2.3 倍", True),
        ("output_tokens_per_second", 1.88, "88 % faster", "快 88%", True),
        ("decode_tokens_per_second", 0.856, "14 % slower", "慢 14%", False),
        ("decode_tokens_per_second", 0.25, "4.0 times slower", "速度降到 1/4.0", False),
        ("ttft_p50", 0.297, "3.4 times shorter", "缩短到 1/3.4", True),
        ("late_ttft", 1.3215, "32 % longer", "延长 32%", False),
        ("peak_kv_bytes", 0.3333, "a third of the memory", "空间只占三分之一", True),
        ("peak_kv_bytes", 0.242188, "about a quarter of the memory", "空间约占四分之一", True),
        ("peak_kv_bytes", 0.297, "30 % of the memory", "空间只占 30%", True),
        ("flops", 0.00661748, "151 times less work", "运算量只有 1/151", True),
        ("computed_tokens", 3.0, "3.0 times the tokens", "token 是 3.0 倍", False),
        ("preemptions", 0.0, "none", "完全没有", True),
        ("seconds", 1.001, "no difference", "没有差别", None),
    ],
)
def test_ratios_are_worded_naturally(metric: str, ratio: float, en: str, zh: str, good: bool | None) -> None:
    assert verdict_of(metric, ratio) == (en, zh, good)


def test_an_interval_containing_1_is_no_difference() -> None:
    assert verdict_of("seconds", 0.985, 0.954, 1.006) == ("no clear difference", "看不出差别", None)
    assert verdict_of("seconds", 0.985, 0.954, 0.99)[0] == "1.5 % faster"


def test_every_ratio_of_every_metric_has_a_text() -> None:
    for metric in METRICS:
        for step in range(400):
            en, zh, _ = verdict_of(metric, 1.04 ** (step - 200))
            assert not re.search(r"[{}]", en + zh)


def test_both_languages_have_the_same_keys() -> None:
    assert gain_texts("en").keys() == gain_texts("zh").keys()
    names = {file.name for file in files("engine.bench").joinpath("words").iterdir()}
    assert json.dumps(sorted(names)) == '["en.json", "gains.en.json", "gains.zh.json", "zh.json"]'
