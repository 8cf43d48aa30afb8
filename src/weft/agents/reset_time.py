"""The time at which a provider accepts work again, read from the text of a program."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Final

from weft.agents.events import RateLimit

_LONGEST: Final = 8_000

_EPOCH: Final = re.compile(r"\|\s*([0-9]{10})\b")
_AMOUNT: Final = r"([0-9]{1,6}(?:\.[0-9]{1,9})?)\s*(ms|s|m|h|d)[a-z]*"
_COME_BACK: Final = r"\b(?:again|retry|reset|available)\w*"
_WAIT: Final = re.compile(
    rf"{_COME_BACK}[^0-9\n]{{0,20}}?\b(?:in|after)\b\W{{0,3}}"
    rf"((?:{_AMOUNT}[\s,]*(?:and\s+)?)+)"
    rf"|\bretry-?(?:delay|after)\W{{1,5}}([0-9]{{1,6}}(?:\.[0-9]{{1,9}})?)",
    re.IGNORECASE,
)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}

_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec"
_ZONES: Final = {
    **{"UTC": 0, "GMT": 0, "Z": 0, "BST": 1, "CET": 1, "CEST": 2, "IST": 5.5, "JST": 9},
    **{"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7},
}
_CLOCK: Final = re.compile(
    rf"{_COME_BACK}(?:\s*:)?(?:\s+(?:at|on|after|by))?\s+"
    # a day: Nov 17, Nov 17th, 2026, or 2026-11-17
    r"(?:(?P<month>[a-z]{3})[a-z]*\.?\s+(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
    r"(?:,?\s+(?P<year>[0-9]{4}))?"
    r"(?:,\s*|\s+)(?:at\s+)?|(?P<iso>[0-9]{4}-[0-9]{2}-[0-9]{2})[t\s]+)?"
    # a time: 5pm, 5:03 PM, 17:00, 17:00:30
    r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.[0-9]+)?)?)?"
    r"\s*(?P<half>[ap]\.?m\b\.?)?"
    # a zone: UTC, (Europe/Berlin), +01:00
    r"(?:\s*\(?(?P<zone>[a-z]{2,20}(?:/[a-z_+-]{2,30}){1,2}|[a-z]{1,4}\b|[+-][0-9]{2}:?[0-9]{2})"
    r"\)?)?",
    re.IGNORECASE,
)
_JUST_PASSED: Final = timedelta(hours=1)
"""The period for which a time of day that has just passed still means today, not tomorrow."""


def parse_rate_limit(text: str) -> RateLimit:
    """Return the rate limit that a text tells of, with the time to come back if the text states
    it."""
    looked_at = text[:_LONGEST]
    if epoch := _EPOCH.search(looked_at):
        return RateLimit(until=float(epoch[1]), text=text)
    if wait := _WAIT.search(looked_at):
        return RateLimit(after=_seconds(wait), text=text)
    stated = _find_clock(looked_at)
    return RateLimit(clock=stated[0] if stated else "", text=text)


def _seconds(wait: re.Match[str]) -> float:
    if wait[1] is None:
        return float(wait[4])
    amounts = re.findall(_AMOUNT, wait[1], re.IGNORECASE)
    return sum(float(amount) * _SECONDS[unit.lower()] for amount, unit in amounts)


def parse_clock_time(words: str, now: float) -> float | None:
    """Return the moment that words such as `again at 5pm (UTC)` name, seen from `now`.

    Without a zone, the time is local to this machine. Without a day, the moment is the next such
    time, or the last if that has only just passed.
    """
    stated = _find_clock(words)
    if stated is None:
        return None
    try:
        return _moment(stated, now)
    except (ValueError, OverflowError):  # no such day or hour
        return None


def _find_clock(text: str) -> re.Match[str] | None:
    """Find a time of day; a bare number, as in `try again 3 times`, is no time."""
    for stated in _CLOCK.finditer(text):
        if stated["minute"] or stated["half"]:
            return stated
    return None


def _moment(stated: re.Match[str], now: float) -> float:
    hour = int(stated["hour"])
    if stated["half"]:
        if not 1 <= hour <= 12:
            raise ValueError(f"{hour} is not an hour from 1 to 12")
        hour = hour % 12 + (12 if stated["half"].lower().startswith("p") else 0)
    here = datetime.fromtimestamp(now).astimezone()
    today = here.astimezone(_zone(stated["zone"] or "", here))
    at = today.replace(
        hour=hour,
        minute=int(stated["minute"] or 0),
        second=int(stated["second"] or 0),
        microsecond=0,
    )
    if stated["iso"]:
        day = date.fromisoformat(stated["iso"])
        return at.replace(year=day.year, month=day.month, day=day.day).timestamp()
    if stated["month"]:
        year = int(stated["year"] or today.year)
        month = _MONTHS.split().index(stated["month"].lower()) + 1
        at = at.replace(year=year, month=month, day=int(stated["day"]))
        passed = at < today - timedelta(days=180) and not stated["year"]
        return (at.replace(year=year + 1) if passed else at).timestamp()
    return (at + timedelta(days=1) if at < today - _JUST_PASSED else at).timestamp()


def _zone(name: str, here: datetime) -> tzinfo | None:
    if name.upper() in _ZONES:
        return timezone(timedelta(hours=_ZONES[name.upper()]))
    if name[:1] in ("+", "-"):
        sign = -1 if name[0] == "-" else 1
        return timezone(sign * timedelta(hours=int(name[1:3]), minutes=int(name[-2:])))
    if "/" in name:
        from zoneinfo import ZoneInfo  # late: few messages name a place

        with suppress(KeyError, ValueError, OSError):
            return ZoneInfo(name)
    return here.tzinfo
