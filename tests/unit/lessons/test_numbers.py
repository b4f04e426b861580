"""Numbers that a running lesson fills into sentences."""

import pytest

from app.lessons.numbers import in_digits, number_in, significant


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (10_123.4, 3, "10,100"), (9_996, 3, "10,000"), (1_234_567.8, 4, "1,235,000"), (0.9361, 3, "0.936"),
        (2.0, 3, "2"), (1.5, 3, "1.5"), (0.000012345, 3, "0.0000123"), (0, 3, "0"), (-0.5, 3, "-0.5"),
        (100.0, 4, "100"),
    ],
)  # fmt: skip
def test_numbers_are_written_without_exponents(value: float, digits: int, text: str) -> None:
    assert significant(value, digits) == text


def test_counts_are_exact_and_bytes_keep_the_unit_of_the_sentence() -> None:
    assert in_digits(123_456, "16") == "123,456" and in_digits(16_534.25, "5") == "16,530"
    assert in_digits(4096, "2 KiB") == "4 KiB" and in_digits(0.125, "50 %") == "12.5 %"
    assert in_digits(7_340_032_000, "1 KiB") == "7,168,000 KiB"
    found = number_in(in_digits(123_456, "16"))
    assert found == 123_456
