"""Words for times, sums of money and long texts."""

from __future__ import annotations

from weft.bounds import DOLLARS
from weft.operations.wording import bounded_line, clock, duration, first_line, whole_line

__all__ = ["bounded_line", "clock", "dollars", "duration", "first_line", "whole_line"]


def dollars(micro_usd: int) -> str:
    return f"${micro_usd / 1_000_000:,.2f}"


def micro_dollars(text: str) -> int | None:
    """`12`, `12.50` or `$12.50` in millionths; None if it is no sum below a million."""
    try:
        number = float(text.strip().removeprefix("$"))
    except ValueError:
        return None
    return round(number * 1_000_000) if 0 <= number < DOLLARS else None
