"""The rule which variables are secret, by name and value. Pure.

Too little hiding leaks; too much destroys text that people and agents have to read. A telling name
is enough, unless the value is a word, a small number or a path. Without such a name only a variable
that is passed to a program, and whose value is almost surely random, is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

_SECRET: Final = re.compile(
    r"(?:KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|PASS|PWD|PAT|JWT|CREDENTIALS?|AUTH"
    r"|AUTHORIZATION|BEARER|COOKIE|PRIVATE|SALT|\w*(?:PASSWORD|PASSWD|TOKEN|SECRET|APIKEY))"
)
_TELLS_ABOUT: Final = re.compile(
    r"(?:IDS?|NAME|TYPE|KIND|URL|URI|HOST|PORT|SERVER|ENDPOINT|FILE|PATH|DIR|HOME|SOCK|LIMIT|SIZE"
    r"|LENGTH|COUNT|MAX|MIN|TTL|EXPIRY|EXPIRES|ALGORITHM|METHOD|MODE|REGION|USER|PROVIDER|PREFIX"
    r"|HEADER|VERSION|SHA|COMMIT|REF|REVISION|HASH|DIGEST|CHECKSUM|UUID)"
)
"""Endings of names that speak of a secret without holding it."""

FORGE_TOKENS: Final = frozenset(
    (
        *("GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"),
        *("GITLAB_TOKEN", "GITLAB_ACCESS_TOKEN", "GITLAB_PRIVATE_TOKEN", "OAUTH_TOKEN"),
        *("GLAB_TOKEN", "CI_JOB_TOKEN", "BITBUCKET_TOKEN", "GITEA_TOKEN", "FORGEJO_TOKEN"),
    )
)
"""Variables by which a program acts as the user on a forge. No agent and no check gets them, not
even if its file names them: agents never push."""

_SHORTEST: Final = 8  # characters of a secret that goes by its name
_LONGEST_WORD: Final = 16
_LONGEST_NUMBER: Final = 12
_RANDOM: Final = 20  # characters; a shorter value never counts as random
_TURNS: Final = 0.25  # share of characters that differ in kind from the previous character

_WORD: Final = re.compile(r"[A-Za-z](?:[a-z]*|[A-Z]*)")
_PATH: Final = re.compile(r"(?:/|~|\.\.?/)")
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^\s:/@]*:([^\s@/]+)@)?(\S*)")
_TURN: Final = re.compile(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])|(?<=[a-z])(?=[A-Z])")


def list_secrets(
    environment: Mapping[str, str], passed_on: Iterable[str] = ()
) -> list[tuple[str, str]]:
    """Return the secrets among variables, with names; `passed_on` are those that programs get."""
    asked = frozenset(passed_on)
    return [
        (name, secret)
        for name, value in environment.items()
        for secret in _secrets(name, value.strip(), asked=name in asked)
    ]


def _secrets(name: str, value: str, *, asked: bool) -> Iterator[str]:
    address = _ADDRESS.fullmatch(value)
    if address is not None:
        if address[1] and _is_telling(address[1]):
            yield address[1]
        if asked:
            yield from filter(_is_random, re.split(r"[/?&=#]", address[2]))
    elif _is_named_secret(name):
        if _is_telling(value):
            yield value
            yield from _lines(value)
    elif asked and not _tells_about(name) and not _PATH.match(value) and _is_random(value):
        yield value


def _lines(value: str) -> Iterator[str]:
    """Yield the random lines of a value, since a program may print it line by line."""
    if "\n" in value:
        yield from filter(_is_random, map(str.strip, value.splitlines()))


def _is_named_secret(name: str) -> bool:
    says_so = any(map(_SECRET.fullmatch, name.upper().split("_")))
    return says_so and not _tells_about(name)


def _tells_about(name: str) -> bool:
    return _TELLS_ABOUT.fullmatch(name.upper().rpartition("_")[2]) is not None


def _is_telling(value: str) -> bool:
    """Return whether a value with a secret's name is a secret: no word, small number or path."""
    if len(value) < _SHORTEST or (value.isdigit() and len(value) < _LONGEST_NUMBER):
        return False
    if _WORD.fullmatch(value) and len(value) < _LONGEST_WORD:
        return False
    return not _PATH.match(value) or _is_random(value)


def _is_random(value: str) -> bool:
    """Return whether letters and digits stand in no order that people give them."""
    dense = re.sub(r"[-_.+/=~]", "", value)
    if len(dense) < _RANDOM or not (dense.isascii() and dense.isalnum()):
        return False
    return len(_TURN.findall(dense)) >= _TURNS * len(dense)
