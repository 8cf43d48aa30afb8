"""Names of branches and archive references: any id gives a valid one, distinct from all others.

Only lower-case letters, digits, `-`, `_` and single inner dots stand for themselves; every other
byte is `%` and two digits. Upper case is written so too, since some file systems keep references
that differ in case in one file. The empty id is `%`; a very long one is cut and ends in `%-` and
a digest, neither of which any other name contains.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

BRANCHES: Final = "refs/heads/weft-work/"
TRUNKS: Final = "refs/heads/weft/"
ARCHIVE: Final = "refs/weft/archive/"
LANDINGS: Final = "refs/weft/landing/"

_LONGEST: Final = 120
_PLAIN: Final = re.compile(rb"[a-z0-9_-]")
_BRANCH: Final = re.compile(r"refs/heads/weft-work/([^/]+/[^/]+/[0-9]+)")


def branch_ref(run: str, task: str, attempt: int) -> str:
    """The full reference of an attempt's branch: `refs/heads/weft-work/<run>/<task>/<n>`."""
    return f"{BRANCHES}{component(run)}/{component(task)}/{attempt}"


def trunk_ref(run: str) -> str:
    """The full reference of a run's trunk: `refs/heads/weft/<run>`."""
    return TRUNKS + component(run)


def landing_refs(run: str) -> str:
    """Return the prefix of the references that protect the commits of a landing."""
    return f"{LANDINGS}{component(run)}/"


def check_ref(run: str, fence: int) -> str:
    """The full reference of a check's branch. No task's name is written like this one."""
    return f"{BRANCHES}{component(run)}/%check/{fence}"


def archive_ref(branch: str, commit: str) -> str:
    """Where a commit of that branch's attempt is kept; the same commit always at the same place."""
    found = _BRANCH.fullmatch(branch)
    place = found[1] if found else component(branch.removeprefix("refs/heads/"))
    return f"{ARCHIVE}{place}/{commit}"


def component(text: str) -> str:
    """One component of a reference name that stands for this text alone."""
    data = text.encode("utf-8", errors="surrogatepass")
    if not data:
        return "%"
    encoded = "".join(_encode(data, place) for place in range(len(data)))
    if len(encoded) <= _LONGEST:
        return encoded
    # A digest of 128 bits: ids so long are made by programs, not chosen to collide.
    cut = re.sub(r"%[0-9a-f]?\Z|\.\Z", "", encoded[: _LONGEST - 34])
    return f"{cut}%-{hashlib.sha256(data).hexdigest()[:32]}"


def _encode(data: bytes, place: int) -> str:
    byte = data[place : place + 1]
    if byte == b".":
        inner = _PLAIN.match(data, place - 1) and _PLAIN.match(data, place + 1) if place else None
        plain = inner is not None and data[place:] != b".lock"
    elif byte == b"-":
        plain = place > 0
    else:
        plain = _PLAIN.match(byte) is not None
    return byte.decode() if plain else f"%{byte[0]:02x}"
