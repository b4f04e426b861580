"""Messages, presets and JSON forms: the parts that need no server."""

import json

import numpy as np
import pytest

from app.ground.errors import AppError
from app.ground.plain import plain, to_json
from app.scenes.presets import PRESETS
from app.session.messages import Join, Play, parse, parse_config, parse_sampling
from engine.config import EngineConfig
from engine.setup.resolve import resolve
from engine.trace.records import LayerCapture


def test_omitted_fields_have_defaults_and_from_is_accepted():
    assert parse({"theater": "t"}, Join) == Join(session="t", first=0, epoch=None, captures=True)
    assert parse({"theater": "t", "from": 3}, Join).first == 3
    assert parse({"theater": "t", "speed": 2}, Play).speed == 2.0


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.id)
def test_presets_are_valid(preset):
    config = parse_config(preset.config, EngineConfig())
    resolve(config, 1024)
    parse_sampling(preset.sampling).checked()


def test_the_keys_of_logit_bias_are_converted_to_integers():
    assert parse_sampling({"logit_bias": {"7": 1, "8": -2.5}}).logit_bias == {7: 1.0, 8: -2.5}
    with pytest.raises(AppError, match=r"sampling: .*logit_bias"):
        parse_sampling({"logit_bias": {"x": 1}})


def test_a_config_changes_only_the_given_fields():
    base = EngineConfig(block_size=4, num_blocks=9)
    changed = parse_config({"num_blocks": 7}, base)
    assert (changed.block_size, changed.num_blocks) == (4, 7)
    with pytest.raises(AppError, match="config has no field 'x'"):
        parse_config({"x": 1}, base)


def test_arrays_and_bytes_have_a_json_form():
    array = np.array([[[0.5, 1.0]]], np.float16)
    layer = LayerCapture(layer=0, q=array, k=array, v=array, rows=[])
    assert plain(layer)["q"] == [[[0.5, 1.0]]]
    value = json.loads(to_json({"hash": b"\x00\xff", "of": [b"a", None], "x": float("nan")}))
    assert value == {"hash": "00ff", "of": ["61", None], "x": None}
