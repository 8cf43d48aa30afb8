"""The values of an agent file: amounts, times, names, lists.

Each parser takes a `Field` and returns a value, or raises `Unexpected` with the expected form.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final

from weft.agents.frontmatter import Field
from weft.redaction.secrets import FORGE_TOKENS

_AMOUNT: Final = re.compile(r"([1-9][0-9]{0,8})([kKmMgG]?)")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,79}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_COUNT: Final = re.compile(r"[0-9]{1,9}")
_TOKENS: Final = re.compile(r"([0-9]{1,12})[ ]*([kKmM]?)")
_MONEY: Final = re.compile(r"\$?[ ]*([0-9]{1,9})(?:\.([0-9]{1,6}))?[ ]*(?:\$|usd|USD)?")
_DURATION: Final = re.compile(
    r"(?:([0-9]{1,5})[ ]*d)?[ ]*(?:([0-9]{1,6})[ ]*h)?[ ]*"
    r"(?:([0-9]{1,6})[ ]*m(?:in)?)?[ ]*(?:([0-9]{1,7})[ ]*s)?"
)
_SHELL_WORDS: Final = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "2>&1"})
_TRUTH: Final = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


class Unexpected(ValueError):
    """The value of `field` does not have the expected form."""

    def __init__(self, field: Field, expected: str) -> None:
        super().__init__(expected)
        self.field = field


def parse_text(field: Field) -> str:
    if not isinstance(field.value, str) or not field.value:
        raise Unexpected(field, "text")
    if "\0" in field.value:
        raise Unexpected(field, "text without NUL characters")
    return field.value


def _match(pattern: re.Pattern[str], field: Field, expected: str) -> re.Match[str]:
    match = pattern.fullmatch(field.value) if isinstance(field.value, str) else None
    if match is None:
        raise Unexpected(field, expected)
    return match


def parse_name(field: Field) -> str:
    return _match(_NAME, field, "a name without spaces")[0]


def parse_variable(field: Field) -> str:
    expected = "the name of an environment variable, such as OPENAI_API_KEY"
    variable = _match(_VARIABLE, field, expected)[0]
    if variable.startswith("WEFT_"):
        raise Unexpected(field, "a name of yours; those that start with WEFT_ are set by weft")
    if variable in FORGE_TOKENS:
        raise Unexpected(field, "no token of a forge: weft publishes, and agents never push")
    return variable


def parse_count(field: Field) -> int:
    return int(_match(_COUNT, field, "a whole number, 0 or more")[0])


def parse_truth(field: Field) -> bool:
    value = _TRUTH.get(field.value.lower()) if isinstance(field.value, str) else None
    if value is None:
        raise Unexpected(field, "yes or no")
    return value


def parse_seconds(field: Field) -> float:
    expected = "a time with its unit, such as 60m or 90s"
    match = _match(_DURATION, field, expected)
    units = zip(match.groups(), (86_400, 3_600, 60, 1), strict=True)
    total = sum(int(amount or 0) * unit for amount, unit in units)
    if total == 0:
        raise Unexpected(field, f"{expected}, above 0")
    return float(total)


def parse_dollars(field: Field) -> int:
    """Return dollars as whole millionths, without passing through a float."""
    match = _match(_MONEY, field, "an amount of dollars, such as 2.50 or $3")
    return int(match[1]) * 1_000_000 + int((match[2] or "").ljust(6, "0"))


def parse_tokens(field: Field) -> int:
    match = _match(_TOKENS, field, "a number of tokens, such as 200000, 200k or 2M")
    return int(match[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[match[2].lower()]


def parse_amount(field: Field) -> int:
    """Read a number of processes or of bytes, such as 512, 800M or 4G."""
    match = _match(_AMOUNT, field, "a number above 0, such as 512, 800M or 4G")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2].lower()]


def parse_names(field: Field) -> tuple[str, ...]:
    """Read a list of names, or names with commas between them."""
    if isinstance(field.value, str):
        parts = [Field(part.strip(), field.line) for part in field.value.split(",")]
        return tuple(parse_name(part) for part in parts)
    if isinstance(field.value, tuple):
        return tuple(parse_name(part) for part in field.value)
    raise Unexpected(field, "a list of names")


def parse_paths(field: Field) -> tuple[str, ...]:
    """Read a path or a list of paths, absolute or below home."""
    parts = field.value if isinstance(field.value, tuple) else (field,)
    return tuple(_path(part) for part in parts)


def _path(field: Field) -> str:
    if not isinstance(field.value, str) or not field.value.startswith(("/", "~/")):
        raise Unexpected(field, "paths that start with / or ~/")
    return parse_text(field)


def parse_words(field: Field) -> tuple[str, ...]:
    """Return a list of arguments, or split a text as a shell would, without a shell."""
    if isinstance(field.value, tuple):
        return tuple(_argument(part) for part in field.value)
    if not isinstance(field.value, str):
        raise Unexpected(field, "a list of arguments")
    try:
        parts = tuple(shlex.split(field.value))
    except ValueError:
        raise Unexpected(field, "a command line whose quotes are closed") from None
    if _SHELL_WORDS.intersection(parts) or "\0" in field.value:
        raise Unexpected(field, "one program and its arguments, since no shell reads it")
    return parts


def _argument(field: Field) -> str:
    if not isinstance(field.value, str) or "\0" in field.value:
        raise Unexpected(field, "a list of arguments")
    return field.value


def get_mapping(field: Field) -> Mapping[str, Field]:
    if not isinstance(field.value, Mapping):
        raise Unexpected(field, "lines of `key: value`, indented")
    return field.value
