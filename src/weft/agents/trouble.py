"""What a failure is, from a status code or, when nothing better is there, from its words.

Only what a program says about its own failure is given to these functions, never what an agent
says about its work: a task about rate limits is not a rate limit.
"""

from __future__ import annotations

import re
from typing import Final

from weft.model import ErrorClass

_LONGEST: Final = 8_000

_STATUS: Final = re.compile(
    r"\b(?:status|code|http|api error|rejected)\b[^0-9\n]{0,20}([45][0-9]{2})\b", re.IGNORECASE
)

_PHRASES: Final[tuple[tuple[re.Pattern[str], ErrorClass], ...]] = tuple(
    (re.compile(words, re.IGNORECASE), kind)
    for words, kind in (
        (
            r"credit balance|billing|payment required|insufficient_quota|out of credits",
            ErrorClass.AUTH,
        ),
        (
            r"rate.?limit|too many requests|usage limit|hit your limit|limit reached|quota"
            r"|resource.?exhausted",
            ErrorClass.RATE_LIMIT,
        ),
        (r"at capacity|no capacity|insufficient capacity|model is busy", ErrorClass.CAPACITY),
        (
            r"invalid.{0,12}(?:api|access).?(?:key|token)|unauthori[sz]ed|unauthenticated"
            r"|authentication|not logged in|/login\b|please log in|token (?:has )?expired"
            r"|api key (?:is )?(?:missing|required|not set|not found)|no api key",
            ErrorClass.AUTH,
        ),
        (
            r"overloaded|service unavailable|internal server error|bad gateway|gateway time"
            r"|temporarily unavailable|econnre(?:set|fused)|enotfound|etimedout|eai_again"
            r"|socket hang up|fetch failed|network error|stream (?:disconnected|error|closed)"
            r"|connection (?:error|reset|refused|closed|lost)|error sending request",
            ErrorClass.OVERLOAD,
        ),
        (
            r"unknown (?:option|argument|model|command)|unrecogni[sz]ed (?:option|argument)"
            r"|unexpected argument|invalid (?:option|value|model)|model.{0,80}not (?:found|exist"
            r"|supported|available)|cannot be used with root|command not found|not installed"
            r"|invalid config|config(?:uration)? error",
            ErrorClass.CONFIG,
        ),
    )
)

_LOST_SESSION: Final = re.compile(
    r"no (?:conversation|saved session|session|rollout)s? found|(?:session|thread|conversation)"
    r".{0,100}(?:not found|does not exist)|invalid session|prompt is too long|context.?(?:length"
    r"|window|overflow)|maximum context|input is too long",
    re.IGNORECASE,
)

_EPOCH: Final = re.compile(r"\|\s*([0-9]{10})\b")
_AMOUNT: Final = r"([0-9]{1,6}(?:\.[0-9]{1,9})?)\s*(ms|s|m|h|d)[a-z]*"
_WAIT: Final = re.compile(
    rf"\b(?:again|retry|reset|available)\w*[^0-9\n]{{0,20}}?\b(?:in|after)\b\W{{0,3}}"
    rf"((?:{_AMOUNT}[\s,]*(?:and\s+)?)+)"
    rf"|\bretry-?(?:delay|after)\W{{1,5}}([0-9]{{1,6}}(?:\.[0-9]{{1,9}})?)",
    re.IGNORECASE,
)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def by_status(status: int | float | None) -> ErrorClass | None:
    """The class of an HTTP status."""
    match None if status is None else int(status):
        case 401 | 402 | 403:
            return ErrorClass.AUTH
        case 404:
            return ErrorClass.CONFIG  # no such model, or a wrong address
        case 429:
            return ErrorClass.RATE_LIMIT
        case 408 | 500 | 502 | 503 | 504 | 520 | 522 | 524 | 529:
            return ErrorClass.OVERLOAD
    return None


def by_text(text: str) -> ErrorClass | None:
    text = text[:_LONGEST]
    for status in _STATUS.findall(text):
        if kind := by_status(int(status)):
            return kind
    return next((kind for words, kind in _PHRASES if words.search(text)), None)


def session_is_useless(text: str) -> bool:
    """Whether going on with the same session would fail again: it is gone, or it is full."""
    return _LOST_SESSION.search(text[:_LONGEST]) is not None


def reset(text: str) -> tuple[float | None, float | None]:
    """When to come back, as far as a text says: a time since 1970, or seconds from now."""
    text = text[:_LONGEST]
    if epoch := _EPOCH.search(text):
        return float(epoch[1]), None
    wait = _WAIT.search(text)
    if wait is None:
        return None, None
    if wait[1] is None:
        return None, float(wait[4])
    amounts = re.findall(_AMOUNT, wait[1], re.IGNORECASE)
    return None, sum(float(amount) * _SECONDS[unit.lower()] for amount, unit in amounts)
