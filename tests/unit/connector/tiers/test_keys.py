"""The key of a stored block depends on each setting that changes its content."""

from typing import Any

import pytest

from engine.connector.tiers import keys
from engine.connector.tiers.keys import GroupFacts, LayoutFacts, NamedBytes, layout_digest, store_key, weights_digest

WEIGHTS = [NamedBytes("a", "float32", (2, 2), bytes(16)), NamedBytes("b", "float32", (4,), bytes(range(16)))]
GROUP = GroupFacts(layers=(0, 1), reaches=((None, 0), (None, 0)), bytes_per_block=4096)
FACTS = LayoutFacts(
    weights=weights_digest(WEIGHTS),
    config={"rope_theta": 10000.0, "num_hidden_layers": 2, "rope_scaling": None},
    numerics={"dtype": "float32", "device": "cpu"},
    kv_cache_dtype="auto",
    block_size=16,
    groups=(GROUP,),
)


def test_digests_do_not_depend_on_the_order_of_names() -> None:
    assert len(layout_digest(FACTS)) == 32
    turned = dict(reversed(list(FACTS.config.items())))
    assert layout_digest(FACTS._replace(config=turned)) == layout_digest(FACTS)
    assert weights_digest(reversed(WEIGHTS)) == weights_digest(WEIGHTS)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": bytes(32)},
        {"config": {**FACTS.config, "rope_theta": 10000.5}},
        {"config": {**FACTS.config, "rope_scaling": {"factor": 2.0}}},
        {"numerics": {"dtype": "bfloat16", "device": "cpu"}},
        {"numerics": {"dtype": "float32", "device": "cuda"}},
        {"kv_cache_dtype": "int8"},
        {"block_size": 32},
        {"groups": (GROUP._replace(reaches=((None, 0), (512, 0))),)},
        {"groups": (GROUP._replace(reaches=((None, 0), (512, 4))),)},
        {"groups": (GROUP._replace(bytes_per_block=2048),)},
        {"groups": (GROUP._replace(layers=(0,)), GROUP._replace(layers=(1,)))},
    ],
    ids=str,
)
def test_every_fact_changes_the_digest(change: dict[str, Any]) -> None:
    assert layout_digest(FACTS._replace(**change)) != layout_digest(FACTS)


def test_the_format_version_changes_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = layout_digest(FACTS)
    monkeypatch.setattr(keys, "FORMAT_VERSION", 2)
    assert layout_digest(FACTS) != before


@pytest.mark.parametrize(
    "changed",
    [
        WEIGHTS[1]._replace(name="c"),
        WEIGHTS[1]._replace(dtype="int32"),
        WEIGHTS[1]._replace(shape=(2, 2)),
        WEIGHTS[1]._replace(data=bytes(range(15)) + b"\x0e"),  # one bit of the last byte
    ],
    ids=["name", "dtype", "shape", "one bit"],
)
def test_name_dtype_shape_and_bits_of_weights_change_the_digest(changed: NamedBytes) -> None:
    assert weights_digest([WEIGHTS[0], changed]) != weights_digest(WEIGHTS)


def test_a_key_depends_on_layout_group_and_block_hash() -> None:
    layout, other = layout_digest(FACTS), layout_digest(FACTS._replace(block_size=32))
    names = [store_key(layout, bytes(16), 0), store_key(layout, bytes(16), 1), store_key(other, bytes(16), 0)]
    names += [store_key(layout, bytes(15) + b"\x01", 0)]
    assert len(set(names)) == 4 and {len(name) for name in names} == {16}
    assert store_key(layout, bytes(16), 0) == names[0]
