"""One-use codes in links to the page. A code becomes a token once, soon after it was made.

The store keeps only the digest of a code. Any process on the store makes codes, and any server on
it takes them.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from typing import Final

from weft.errors import Unauthenticated
from weft.store.database import Transaction
from weft.store.store import reads, writes
from weft.store.tokens import create_token

_TOKEN_SECONDS: Final = 7 * 86_400.0  # of the token that a code becomes
_LONGEST: Final = 100


@writes
def create_page_code(tx: Transaction, *, scopes: Iterable[str], seconds: float, now: float) -> str:
    """Make a code that is valid for so many seconds; return its text."""
    code = secrets.token_urlsafe(32)
    tx.run("forget_page_codes", now=now)
    tx.run(
        "add_page_code",
        hash=_digest(code),
        scopes=" ".join(sorted(scopes)),
        expires=now + seconds,
    )
    return code


@reads
def is_page_code(tx: Transaction, code: str, *, now: float) -> bool:
    """Tell whether a code can be used."""
    row = tx.one("page_code", hash=_digest(code)) if len(code) <= _LONGEST else None
    return row is not None and now < row["expires"]


@writes
def redeem_page_code(tx: Transaction, code: str, *, now: float) -> str:
    """Make the token of a code and return its text; raise `Unauthenticated` for a code that was
    used, is too old or never was."""
    if not is_page_code(tx, code, now=now):
        raise Unauthenticated
    row = tx.one("page_code", hash=_digest(code))
    assert row is not None
    tx.run("use_page_code", hash=_digest(code))
    _, text = create_token(
        tx, name="the page", scopes=row["scopes"].split(), expires=now + _TOKEN_SECONDS, now=now
    )
    return text


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode(errors="replace")).hexdigest()
