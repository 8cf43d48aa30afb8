"""Secrets replaced in text by a visible mark. Pure.

Known secrets (values, each with the name of its variable) are found under any number of JSON
escapes. Unknown credentials are found by their shape. Neither is found in base64, percent-encoding
or other disguises: this guards against mistakes, not against intent. `secrets` decides which values
are secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

_HIDDEN: Final = b"[hidden]"
_LITTLE: Final = 400  # bytes
_OUTSIDE: Final = rb"(?<![A-Za-z0-9_])"


class _Rule(NamedTuple):
    anchor: bytes  # bytes in every match: cheap to search for in many lines at once
    pattern: re.Pattern[bytes]
    replacement: bytes | Callable[[re.Match[bytes]], bytes]


def _after_its_prefix(match: re.Match[bytes]) -> bytes:
    return match[1] + _HIDDEN


def _shape(anchor: bytes, prefix: bytes, rest: bytes) -> _Rule:
    return _Rule(anchor, re.compile(b"(" + prefix + b")" + rest), _after_its_prefix)


_SHAPES: Final = (
    _shape(b"weft_", rb"weft_", rb"[0-9a-f]{12}_[A-Za-z0-9_-]{20,}"),
    # A run without dashes and a digit in it: `sk-learn-pipelines-of-all-kinds` is no key.
    _shape(b"sk-", _OUTSIDE + rb"sk-(?:ant-)?", rb"(?=[\w-]*\w{16})(?=[\w-]*\d)[\w-]{20,}"),
    _shape(b"gh", rb"gh[pousr]_", rb"[A-Za-z0-9]{30,}"),
    _shape(b"github_pat_", rb"github_pat_", rb"\w{30,}"),
    _shape(b"glpat-", rb"glpat-", rb"[\w-]{20,}"),
    _shape(b"xox", rb"xox[abeoprs]-", rb"[\w-]{20,}"),
    _shape(b"AKIA", _OUTSIDE + rb"AKIA", rb"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape(b"ASIA", _OUTSIDE + rb"ASIA", rb"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape(b"AIza", _OUTSIDE + rb"AIza", rb"[\w-]{35}"),
    _shape(b".eyJ", _OUTSIDE + rb"eyJ", rb"[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}"),
    _shape(b"earer ", rb"[Bb]earer +", rb"(?=[A-Za-z._~+/=-]*\d)[A-Za-z0-9._~+/=-]{16,}"),
    # A password in an address, unless it is a place to fill in.
    _shape(
        b"://", rb"://[^\s:/@\"'\\]{0,100}:", rb"(?![$<{*\[%])[^\s@/\"'\\]{3,300}(?=@[A-Za-z0-9\[])"
    ),
)


class Redactor:
    """A replacer of values, given by name, and of text that looks like a credential."""

    __slots__ = ("_anchors", "_named", "_rules", "_values", "reach")

    def __init__(self, values: Iterable[tuple[str, str]] = ()) -> None:
        by_value = {value: name for name, value in reversed(list(values)) if value}
        self._values = tuple((name, value) for value, name in by_value.items())
        longest_first = sorted(by_value.items(), key=lambda item: -len(item[0]))
        self._named = tuple((name, _rule(name, value)) for value, name in longest_first)
        self._rules = (*(rule for _, rule in self._named), *_SHAPES)
        self._anchors = re.compile(b"|".join(re.escape(rule.anchor) for rule in self._rules))
        # How much of a text has to be seen before its beginning and after its end, so that no
        # piece of a secret is left where it was cut.
        self.reach = 300 + 2 * max((len(value.encode(*_UTF8)) for value in by_value), default=0)

    def with_values(self, values: Iterable[tuple[str, str]]) -> Redactor:
        """Return a redactor that knows these values too; itself if it does already."""
        more = [pair for pair in values if pair not in self._values]
        return Redactor([*self._values, *more]) if more else self

    def redact_line(self, data: bytes) -> bytes:
        # In a short line a single search for all anchors is quicker.
        if len(data) < _LITTLE and self._anchors.search(data) is None:
            return data
        return _applied(self._rules, data)

    def redact_lines(self, data: Sequence[bytes]) -> Sequence[bytes]:
        """Redact many lines; fast in the usual case that none holds a secret."""
        together = b"\n".join(data)
        rules = [rule for rule in self._rules if rule.anchor in together]
        return [_applied(rules, line) for line in data] if rules else data

    def redact_text(self, content: str) -> str:
        before = content.encode(*_UTF8)
        after = self.redact_line(before)
        return content if after is before or after == before else after.decode(*_UTF8)

    def has_secret(self, content: str) -> bool:
        """Return whether a text, which may be JSON, holds a secret."""
        return self.redact_text(content) is not content

    def find_names(self, data: bytes) -> list[str]:
        """Return the names of the known values that the text contains."""
        return [
            name
            for name, rule in self._named
            if rule.anchor in data and rule.pattern.search(data) is not None
        ]

    def redact_value(self, value: Any) -> Any:
        """Redact every string in a value, except names of fields."""
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, Mapping):
            return {name: self.redact_value(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_value(item) for item in value]
        return value


def _applied(rules: Iterable[_Rule], data: bytes) -> bytes:
    for anchor, pattern, replacement in rules:
        if anchor in data:
            data = pattern.sub(replacement, data)
    return data


_UTF8: Final = ("utf-8", "surrogatepass")

SHAPES_ALONE: Final = Redactor()
"""A redactor that knows no values."""


def _rule(name: str, value: str) -> _Rule:
    anchor = max(re.findall(r"[A-Za-z0-9]+", value), key=len, default="")
    pattern = re.compile(b"".join(map(_escaped, value.replace("\r\n", "\n"))))
    return _Rule(anchor.encode(), pattern, f"[{name}]".encode().replace(b"\\", rb"\\"))


_NAMED: Final = {"\n": b"n", "\r": b"r", "\t": b"t", "\b": b"b", "\f": b"f"}


def _escaped(char: str) -> bytes:
    """Match a character as it is, or with any number of JSON escapes."""
    if char.isascii() and char.isalnum():
        return char.encode()
    units = char.encode("utf-16-be", "surrogatepass")
    by_number = b"".join(
        rb"\\+u(?i:%02x%02x)" % (units[at], units[at + 1]) for at in range(0, len(units), 2)
    )
    plain = re.escape(char.encode(*_UTF8))
    if char == "\n":
        return rb"(?:\r?\n|(?:\\+r)?\\+n|" + by_number + b")"
    if char == "\\":
        return rb"(?:\\+|" + by_number + b")"
    short = rb"|\\+" + _NAMED[char] if char in _NAMED else b""
    return rb"(?:\\*" + plain + short + b"|" + by_number + b")"
