"""Names of branches and archive references: every id has a valid and unique name.

Letters, digits, `-`, `_` and single inner dots stand for themselves; every other byte is `%` and
two digits. Capital letters become small, since some file systems keep references that differ in
case in the same file; `%+` and a number tell which were capital: `LOOP-3` is `loop-3%+f`. The
empty id is `%`. A very long id is cut and ends with `%-` and a digest, which no other name
contains.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

BRANCHES: Final = "refs/weft/work/"
OLD_BRANCHES: Final = "refs/heads/weft-work/"
"""Branches of attempts by an earlier weft; `weft clean` removes them."""
TRUNKS: Final = "refs/heads/weft/"
ARCHIVE: Final = "refs/weft/archive/"
LANDINGS: Final = "refs/weft/landing/"
MERGES: Final = "refs/weft/merges/"
CHECKS: Final = "refs/weft/checks/"

_LONGEST: Final = 120
_PLAIN: Final = re.compile(rb"[a-z0-9_-]")
_BRANCH: Final = re.compile(r"refs/(?:weft/work|heads/weft-work)/([^/]+/[^/]+/[0-9]+)")


def branch_ref(run: str, task: str, attempt: int) -> str:
    """Return the branch of an attempt: `refs/weft/work/<run>/<task>/<n>`."""
    return f"{BRANCHES}{component(run)}/{component(task)}/{attempt}"


def trunk_ref(run: str) -> str:
    """Return the trunk of a run: `refs/heads/weft/<run>`."""
    return TRUNKS + component(run)


def landing_refs(run: str) -> str:
    """Return the prefix of the references that protect the commits of a landing."""
    return f"{LANDINGS}{component(run)}/"


def merge_refs(run: str) -> str:
    """Return the prefix of the references that protect the merges that repair tasks start from."""
    return f"{MERGES}{component(run)}/"


def check_ref(run: str, fence: int) -> str:
    """Return the branch of a check, which is no branch of a task."""
    return f"{BRANCHES}{component(run)}/%check/{fence}"


def ordered_checks(run: str) -> str:
    """Return the prefix of the references that keep commits which worker hosts check for a run."""
    return f"{CHECKS}{component(run)}/"


def archive_ref(branch: str, commit: str) -> str:
    """Return the reference that keeps a commit of a branch's attempt."""
    match = _BRANCH.fullmatch(branch)
    place = match[1] if match else component(branch.removeprefix("refs/heads/"))
    return f"{ARCHIVE}{place}/{commit}"


def component(text: str) -> str:
    """Return the component of a reference name that stands for this text alone."""
    data = text.encode("utf-8", errors="surrogatepass")
    if not data:
        return "%"
    capitals = sum(1 << place for place, byte in enumerate(data) if 65 <= byte <= 90)
    small = data.lower()
    encoded = "".join(_encode(small, place) for place in range(len(data)))
    encoded += f"%+{capitals:x}" if capitals else ""
    if len(encoded) <= _LONGEST:
        return encoded
    # 128 bits are enough: programs make such ids, and none is chosen to collide.
    cut = re.sub(r"%[0-9a-f]?\Z|\.\Z", "", encoded[: _LONGEST - 34].partition("%+")[0])
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
