"""Numbers computed by evaluating the formula that is displayed with them."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

Unit = Literal["B", "B/s", "bit/s", "tokens", "requests", "blocks", "s", "FLOP", "FLOP/s", "FLOP/B", "1/s", "1"]
Number = int | float

SIGNS = {"·": "*", "−": "-", "²": "**2", "³": "**3", "⌈": "ceil(", "⌉": ")", "⌊": "floor(", "⌋": ")"}
FUNCTIONS: dict[str, Callable[..., Number]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "ln": math.log,
}
OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
SYMBOL = re.compile(r"[^\W\d²³][^\W²³]*")


class Factor(Struct, frozen=True):
    """Symbol of a formula. `meaning`: id of its text; `of`: id of the `Derived` that computes it, or ""."""

    symbol: str
    value: Number
    meaning: str
    of: str = ""


class Derived(Struct, frozen=True, kw_only=True):
    """Number with unit and formula.

    Formulas use mathematical notation: `2 · L · Hkv · D · bytes`, `D + R · D² / (2 · (1 − R · D))`, `⌈T / S⌉ · S`, with
    + − · / ( ) ² ³ ⌈ ⌉ ⌊ ⌋ and min, max, sqrt, exp, ln. Each symbol is one of `factors`.
    """

    id: str
    value: Number
    unit: Unit
    formula: str
    factors: tuple[Factor, ...] = ()

    def as_factor(self, symbol: str, meaning: str = "") -> Factor:
        """Return this number as a symbol of another formula; its meaning defaults to its id."""
        return Factor(symbol, self.value, meaning or self.id, self.id)

    def with_numbers(self) -> str:
        """Return the formula with numbers in place of its symbols: `2 · 96 · 96 · 128 · 2`."""
        values = {factor.symbol: factor.value for factor in self.factors}
        return SYMBOL.sub(lambda found: _plain(values[found[0]]) if found[0] in values else found[0], self.formula)


def derive(id: str, unit: Unit, formula: str, *factors: Factor) -> Derived:
    """Evaluate `formula` with `factors`. Results without a fractional part are integers.

    Raises:
        ValueError: the formula is invalid, it divides by zero, or its symbols are not exactly those of `factors`.
    """
    values = {factor.symbol: factor.value for factor in factors}
    symbols = {name for name in SYMBOL.findall(formula) if name not in FUNCTIONS}
    if len(values) != len(factors) or symbols != values.keys():
        wrong = sorted(symbols ^ values.keys()) or sorted(values)
        raise ValueError(f"formula {formula!r} and its factors have different symbols: {', '.join(wrong)}")
    return Derived(id=id, value=evaluate(formula, values), unit=unit, formula=formula, factors=factors)


def evaluate(formula: str, values: Mapping[str, Number]) -> Number:
    """Evaluate a formula with the values of its symbols.

    Raises:
        ValueError: the formula is invalid, it divides by zero, or a symbol has no value.
    """
    text = "".join(SIGNS.get(sign, sign) for sign in formula)
    try:
        found = _value(ast.parse(text, mode="eval").body, values)
    except (SyntaxError, KeyError, ZeroDivisionError) as error:
        raise ValueError(f"formula {formula!r} cannot be computed: {error}") from error
    return int(found) if isinstance(found, float) and found.is_integer() else found


def _value(node: ast.expr, values: Mapping[str, Number]) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=symbol):
            return values[symbol]
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
            return OPERATORS[type(sign)](_value(left, values), _value(right, values))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(_value(argument, values) for argument in arguments))
    raise SyntaxError(ast.unparse(node))


def _plain(value: Number) -> str:
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
    return f"({text.replace('-', '−')})" if value < 0 else text
