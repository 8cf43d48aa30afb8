"""Who asks: a bearer token becomes an identity, in the transaction that serves the request.

No cookies, so no page can ask on behalf of whoever looks at it. A token in an address would end
up in logs, so there is none.
"""

from __future__ import annotations

from typing import Final

from fastapi import Request

from weft.errors import Unauthenticated
from weft.operations.swarm.identity import Identity, from_token, need
from weft.store.database import Transaction
from weft.store.tokens import identified

OWN: Final = "own"
"""Instead of a scope: whatever may be asked with a token made for one attempt too.

What of it that token may see and touch is decided by the operation."""


def bearer(request: Request) -> str:
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthenticated
    return text.strip()


def admit(tx: Transaction, bearer: str, scope: str, *, now: float) -> Identity:
    """Who asks, if it may ask for this at all."""
    who = from_token(identified(tx, bearer, now=now))
    if scope != OWN:
        need(who, scope)
    return who
