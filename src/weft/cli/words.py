"""How commands word times, sums of money and long texts."""

from __future__ import annotations

import time

from weft.bounds import DOLLARS
from weft.operations.wording import bounded_line, first_line, whole_line

__all__ = ["bounded_line", "clock", "dollars", "duration", "first_line", "whole_line"]


def duration(seconds: float) -> str:
    """`3.2 s`, `45 s`, `3 min 05 s`, `2 h 07 min`, `3 d 04 h`"""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours:02d} h"


def clock(at: float) -> str:
    """The time of day; with its date unless that is today."""
    when, today = time.localtime(at), time.localtime()
    same_day = when[:3] == today[:3]
    return time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S", when)


def dollars(micro_usd: int) -> str:
    return f"${micro_usd / 1_000_000:,.2f}"


def micro_dollars(text: str) -> int | None:
    """`12`, `12.50` or `$12.50` in millionths; None if it is no sum below a million."""
    try:
        number = float(text.strip().removeprefix("$"))
    except ValueError:
        return None
    return round(number * 1_000_000) if 0 <= number < DOLLARS else None
