"""Times, sums of money and long texts as people read them."""

from __future__ import annotations

import time
from typing import Final

from weft.bounds import DOLLARS

_LONGEST: Final = 160
_LONGEST_CURE: Final = 320
_LONGEST_SHOWN: Final = 2_000
_LITTLE: Final = 10  # characters that are not worth leaving out


def whole_line(text: str) -> str:
    """The first line with something in it."""
    return next((one.strip() for one in text.splitlines() if one.strip()), "")


def bounded_line(line: str, where: str) -> str:
    """Return a line that fits on a screen; `where` is the command that prints all of it."""
    if len(line) <= _LONGEST_SHOWN:
        return line
    return f"{line[:_LONGEST_SHOWN]}… ({len(line):,} characters; `{where}` prints all of it)"


def first_line(text: str) -> str:
    """The same, not too long. Who is told what to do (in `backticks`) is told that to its end."""
    line = whole_line(text)
    if len(line) <= _LONGEST:
        return line
    start, end = line.find("`"), line.rfind("`") + 1
    if not 1 < end - start <= _LONGEST_CURE:
        return line[: _LONGEST - 1] + "…"
    rest = line[end:] if len(line) - end < _LITTLE else "…"
    room = max(_LONGEST - (end - start) - len(rest), _LONGEST // 2)
    head = line[:start] if start <= room else f"{line[: room - 2]}… "
    return head + line[start:end] + rest


def duration(seconds: float) -> str:
    """Format seconds: `3.2 s`, `45 s`, `3 min 05 s`, `2 h 07 min`, `3 d 04 h`."""
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
    """Format the time of day, with the date unless that is today."""
    when, today = time.localtime(at), time.localtime()
    same_day = when[:3] == today[:3]
    return time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S", when)


def dollars(micro_usd: int) -> str:
    return f"${micro_usd / 1_000_000:,.2f}"


def micro_dollars(text: str) -> int | None:
    """Read `12`, `12.50` or `$12.50` as millionths; return None for any other text."""
    try:
        number = float(text.strip().removeprefix("$"))
    except ValueError:
        return None
    return round(number * 1_000_000) if 0 <= number < DOLLARS else None
