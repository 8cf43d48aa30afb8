"""The class of a failure, from a status code or the text of its message, and its signature.

These functions get only text in which a program explains its own failure, never text about its
work: a task about rate limits is not a rate limit.
"""

from __future__ import annotations

import re
from typing import Final

from weft.model import ErrorClass

_LONGEST: Final = 8_000

_STATUS: Final = re.compile(
    r"\b(?:status|code|http|api error|rejected)\b[^0-9\n]{0,20}([45][0-9]{2})\b", re.IGNORECASE
)

_FULL: Final = re.compile(
    r"prompt is too long|input is too long|context.?(?:length|window|overflow|size)"
    r"|maximum context|input token count.{0,40}exceeds|maximum number of tokens allowed",
    re.IGNORECASE,
)

_PHRASES: Final[tuple[tuple[re.Pattern[str], ErrorClass], ...]] = tuple(
    (re.compile(words, re.IGNORECASE), kind)
    for words, kind in (
        # The model refused, or its answer was cut off: the same prompt would fail again.
        (
            r"content.?filter|usage policy|safety settings|prohibited.?content|max_output_tokens"
            r"|output token maximum|truncated because",
            ErrorClass.OTHER,
        ),
        (
            r"credit balance|billing|payment required|insufficient_quota|out of credits",
            ErrorClass.AUTH,
        ),
        (
            r"rate.?limit|too many requests|usage limit|hit your limit|limit reached|quota"
            r"|resource.?exhausted|resource has been exhausted",
            ErrorClass.RATE_LIMIT,
        ),
        (r"at capacity|no capacity|insufficient capacity|model is busy", ErrorClass.CAPACITY),
        (
            r"invalid.{0,12}(?:api|access).?(?:key|token)|unauthori[sz]ed|unauthenticated"
            r"|authentication|not logged in|/login\b|please log in|token (?:has )?expired"
            r"|api key (?:is )?(?:missing|required|not (?:set|found|valid))|no api key"
            r"|(?:missing|specify the|set the) (?:environment variable\W{1,3})?[a-z_]*api_key"
            r"|(?:set an|invalid) auth method",
            ErrorClass.AUTH,
        ),
        (
            r"overloaded|service unavailable|internal server error|bad gateway|gateway time"
            r"|temporarily unavailable|econnre(?:set|fused)|enotfound|etimedout|eai_again"
            r"|socket hang up|fetch failed|network error|stream (?:disconnected|error|closed)"
            r"|connection (?:was )?(?:error|reset|refused|closed|lost)|error sending request"
            # A stream that was cut off, or is not JSON.
            r"|api error: terminated|malformed response|json at position|not valid json"
            r"|end of json input|json parsing failed|without a finish reason|empty response",
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
    r"no (?:saved |previous )?(?:conversation|session|rollout)s? found"
    r"|(?:session|thread|conversation)"
    r".{0,100}(?:not found|does not exist)|invalid session",
    re.IGNORECASE,
)


_LONGEST_SIGNATURE: Final = 160

_VARYING: Final = tuple(
    (re.compile(pattern), put)
    for pattern, put in (
        (r"\b[a-z][a-z0-9+.-]{1,15}://\S+", "<url>"),
        (r"\b\d{4}-\d\d-\d\d[t ]\d\d:\d\d\S*", "<time>"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
        (r"\b(?:[a-z]{2,8}_)[a-z0-9]*\d[a-z0-9]*\b", "<id>"),
        (r"(?:[\w.~-]*/)+([\w.-]+)", r"<path>/\1"),
        (r"\b(?=[a-f]*\d)[0-9a-f]{7,64}\b", "<id>"),
        (r"\d+(?:[.:,]\d+)*", "#"),
        (r"\s+", " "),
    )
)


def classify_status(status: int | float | None) -> ErrorClass | None:
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


def classify_text(text: str) -> ErrorClass | None:
    text = text[:_LONGEST]
    if _FULL.search(text):
        return ErrorClass.CONTEXT
    for status in _STATUS.findall(text):
        if kind := classify_status(int(status)):
            return kind
    return next((kind for words, kind in _PHRASES if words.search(text)), None)


def is_session_lost(text: str) -> bool:
    """Tell whether the session to be resumed no longer exists."""
    return _LOST_SESSION.search(text[:_LONGEST]) is not None


def sign_failure(kind: str, text: str) -> str:
    """Return a short text by which the same failure is recognised again.

    Numbers, ids, times, addresses and directories are taken out.
    """
    short = text[:1_000].lower()
    for pattern, put in _VARYING:
        short = pattern.sub(put, short)
    return f"{kind}: {short.strip()}"[:_LONGEST_SIGNATURE]
