"""KV bytes of known models."""

from itertools import product

import pytest

from engine.accounting.kv_shape import KvShape
from engine.accounting.layer_bytes import kv_token
from engine.accounting.memory import bytes_per_element, stored_bytes_per_token, stored_element
from engine.accounting.presets import model_presets
from tests.unit.accounting.model_facts import facts

QWEN_72B = facts(80, 8192, 64)


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(ValueError, match="int3"):
        bytes_per_element("int3")


@pytest.mark.parametrize(
    ("dtype", "vector"), [("auto", 128 * 2), ("float32", 128 * 4), ("fp8", 128), ("int8", 128 + 2), ("int4", 64 + 4)]
)
def test_stored_bytes_include_the_scales_of_each_vector(dtype: str, vector: int) -> None:
    """Qwen-72B has 2 * 80 layers * 64 heads vectors of 128 numbers a token."""
    assert stored_bytes_per_token(QWEN_72B, dtype) == 2 * 80 * 64 * vector


def test_shown_bytes_per_token_equal_those_of_the_pool() -> None:
    """The number on page /scale equals that of a pool of such a model."""
    for model, dtype in product(model_presets(), ["float32", "float16", "fp8", "int8", "int4"]):
        shape = KvShape(model.num_layers, model.num_kv_heads, model.head_dim, model.v_head_dim, model.latent_dim)
        size, scales = stored_element(dtype)
        assert kv_token(shape, size, scales).value == stored_bytes_per_token(model, dtype)
