"""Times, money and names as people read them."""

from __future__ import annotations

from cases import each_case
from weft.formats import cells, dollars, duration, fit, listed


@each_case(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (2, "2 s"),
        (3.24, "3.2 s"),
        (40.4, "40 s"),
        (59.7, "1 min"),
        (185, "3 min 05 s"),
        (840, "14 min"),
        (3600, "1 h"),
        (3900, "1 h 05 min"),
        (90_000, "25 h"),
        (172_800, "2 d"),
        (277_200, "3 d 05 h"),
    ],
)
def test_a_duration_has_two_units_and_no_empty_one(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@each_case(
    ("micro_usd", "text"),
    [(0, "$0.00"), (31_234, "$0.0312"), (250_000, "$0.25"), (1_200_000_000, "$1,200.00")],
)
def test_small_sums_have_four_decimals(micro_usd: int, text: str) -> None:
    assert dollars(micro_usd) == text


def test_long_lists_are_counted() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdefgh")) == "a, b, c, d, e, f and 2 more"


@each_case("text", ["課題 課題 課題", "plain words", "", "é" * 20])
def test_a_fitted_text_takes_exactly_its_columns(text: str) -> None:
    assert cells(fit(text, 8)) == 8
