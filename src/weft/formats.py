"""Times, sums of money, counts and long texts as people read them."""

from __future__ import annotations

import json
import re
import time
import unicodedata
from collections.abc import Sequence
from typing import Final

from weft.bounds import DOLLARS

_LONGEST: Final = 160
_LONGEST_CURE: Final = 320
_LONGEST_SHOWN: Final = 2_000
_LONGEST_TITLE: Final = 80
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[ ]+(?=[^a-z0-9])")
_ABBREVIATIONS: Final = ("e.g.", "i.e.", "etc.", "vs.", "cf.", "approx.", "incl.", "no.", "resp.")
_LITTLE: Final = 10  # characters that are not worth leaving out
_DOLLAR: Final = 1_000_000  # millionths
_CENTS: Final = 100_000  # millionths from which two decimals are enough


def whole_line(text: str) -> str:
    """Return the first line that is not blank."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def bounded_line(line: str, where: str) -> str:
    """Return a line that fits on a screen; `where` is the command that prints all of it."""
    if len(line) <= _LONGEST_SHOWN:
        return line
    return f"{line[:_LONGEST_SHOWN]}… ({len(line):,} characters; `{where}` prints all of it)"


def first_line(text: str) -> str:
    """Return the first line that is not blank, shortened; a command in `backticks` stays whole."""
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


def first_sentence(text: str) -> str:
    """Return the title of a text: its first sentence, of at most 80 characters."""
    line = " ".join(whole_line(text).split())
    for end in _SENTENCE_END.finditer(line[: 4 * _LONGEST_TITLE]):
        if not line[: end.start()].lower().endswith(_ABBREVIATIONS):
            line = line[: end.start()].rstrip(".")
            break
    if len(line) <= _LONGEST_TITLE:
        return line
    cut = line[:_LONGEST_TITLE]
    words = cut.rpartition(" ")[0] if " " in cut[_LONGEST_TITLE // 2 :] else cut[:-1]
    return words.rstrip(" ,;:-–—") + "…"


def duration(seconds: float) -> str:
    """Format seconds: `3.2 s`, `45 s`, `3 min 05 s`, `2 h`, `2 h 07 min`, `3 d 04 h`."""
    whole = round(seconds)
    if seconds < 10:
        return f"{max(0.0, seconds):.1f}".removesuffix(".0") + " s"
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min" + (f" {rest:02d} s" if rest else "")
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h" + (f" {minutes:02d} min" if minutes else "")
    days, hours = divmod(hours, 24)
    return f"{days} d" + (f" {hours:02d} h" if hours else "")


def elapsed(seconds: float) -> str:
    """Format a time that goes on, as a stopwatch does: `2:31`, `1:02:31`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def moment(at: float) -> str:
    """Format a date with its time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def clock(at: float) -> str:
    """Format the time of day, with the date unless that is today."""
    when, today = time.localtime(at), time.localtime()
    same_day = when[:3] == today[:3]
    return time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S", when)


def dollars(micro_usd: int) -> str:
    """Format an amount: `$1,200.00`, `$0.25`, and below ten cents `$0.0312`."""
    digits = 2 if not micro_usd or micro_usd >= _CENTS else 4
    return f"${micro_usd / _DOLLAR:,.{digits}f}"


def micro_dollars(text: str) -> int | None:
    """Read `12`, `12.50` or `$12.50` as millionths; return None for any other text."""
    try:
        number = float(text.strip().removeprefix("$"))
    except ValueError:
        return None
    return round(number * _DOLLAR) if 0 <= number < DOLLARS else None


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Join names as `a, b and c`; count those beyond `most`."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def plain(text: str) -> str:
    """Replace characters that could move the cursor, change colours or reverse a line."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " for letter in text)


def cells(text: str) -> int:
    """Return the number of terminal columns the text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def fit(text: str, width: int) -> str:
    """Cut or pad the text to exactly so many columns."""
    room = width - cells(text)
    if room < 0:
        kept, room = [], width - 1
        for letter in text:
            room -= _cells(letter)
            if room < 0:
                room += _cells(letter)
                break
            kept.append(letter)
        text = "".join(kept) + "…"
    return text + " " * room


def json_text(value: object, *, indent: int | None = 2) -> str:
    """Encode a value as JSON and escape every character that could steer a terminal: control
    characters of both sets, marks that reverse or hide text, and lone surrogates."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
