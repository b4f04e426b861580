"""Numbers with their formulas: the displayed formula gives the number."""

import math

import pytest

from engine.accounting.derived import Factor, derive, evaluate


def test_evaluating_the_shown_formula_gives_the_number() -> None:
    """GPT-3 has 2 · 96 · 96 · 128 · 2 = 4,718,592 bytes a token."""
    shown = derive(
        "kv_token",
        "B",
        "2 · L · Hkv · D · bytes",
        Factor("L", 96, "layers"),
        Factor("Hkv", 96, "kv_heads"),
        Factor("D", 128, "head_dim"),
        Factor("bytes", 2, "element_bytes"),
    )
    assert shown.value == 4_718_592 and isinstance(shown.value, int)
    assert shown.with_numbers() == "2 · 96 · 96 · 128 · 2"
    assert evaluate(shown.formula, {factor.symbol: factor.value for factor in shown.factors}) == shown.value


@pytest.mark.parametrize(
    ("formula", "values", "expected"),
    [
        ("⌈T / S⌉ · S", {"T": 17, "S": 16}, 32),
        ("⌊T / S⌋", {"T": 33, "S": 16}, 2),
        ("D + R · D² / (2 · (1 − R · D))", {"D": 0.25, "R": 2}, 0.25 + 0.125 / (2 * 0.5)),
        ("a³ − −b", {"a": 2, "b": 1}, 9),
        ("max(F / P, B / W) + min(1, 2)", {"F": 8, "P": 2, "B": 3, "W": 3}, 5),
        ("sqrt(4) + exp(0) + ln(1)", {}, 3),
        ("D_v · bytes", {"D_v": 64, "bytes": 0.5}, 32),
    ],
)
def test_every_operator_of_a_formula_is_evaluated(formula: str, values: dict[str, float], expected: float) -> None:
    assert math.isclose(evaluate(formula, values), expected, rel_tol=1e-15)


def test_integral_results_are_integers() -> None:
    assert isinstance(evaluate("4 · b", {"b": 0.5}), int)
    assert isinstance(evaluate("3 · b", {"b": 0.5}), float)


def test_a_number_can_be_a_factor_of_another() -> None:
    token = derive("kv_token", "B", "2 · L", Factor("L", 3, "layers"))
    factor = token.as_factor("k")
    assert (factor.symbol, factor.value, factor.meaning, factor.of) == ("k", 6, "kv_token", "kv_token")
    assert token.as_factor("k", "a_token").meaning == "a_token"


def test_numbers_are_grouped_rounded_and_parenthesized() -> None:
    shown = derive("x", "1", "a · b − c", Factor("a", 1234567, "a"), Factor("b", 1 / 3, "b"), Factor("c", -2, "c"))
    assert shown.with_numbers() == "1,234,567 · 0.333333 − (−2)"


@pytest.mark.parametrize(
    ("formula", "factors", "named"),
    [
        ("2 · L", [], "L"),
        ("2 · L", [Factor("L", 1, "layers"), Factor("D", 1, "head_dim")], "D"),
        ("2 · L", [Factor("L", 1, "layers"), Factor("L", 2, "layers")], "L"),
        ("1 / L", [Factor("L", 0, "layers")], "zero"),
        ("2 L", [Factor("L", 1, "layers")], "cannot be computed"),
        ("(L).real", [Factor("L", 1, "layers"), Factor("real", 1, "x")], "real"),
        ("'a' · L", [Factor("L", 1, "layers"), Factor("a", 1, "x")], "cannot be computed"),
    ],
)
def test_invalid_formulas_are_refused(formula: str, factors: list[Factor], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        derive("x", "1", formula, *factors)


def test_an_exponent_is_not_part_of_a_symbols_name() -> None:
    found = derive("area", "1", "D² + a³", Factor("D", 3, "side"), Factor("a", 2, "edge"))
    assert (found.value, found.with_numbers()) == (17, "3² + 2³")
