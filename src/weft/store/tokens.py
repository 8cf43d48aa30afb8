"""Tokens that authorise requests to a server.

A token's text is `weft_<id>_<secret>`. The secret is 32 random bytes, so a plain digest of it is as
good as a slow digest; the store keeps only the digest. A token made for an attempt is valid while
the lease of that attempt is open.

A page code, in a link to the page, becomes a token once, soon after it was made. Any process on the
store makes codes, and any server on it takes them.

A request that may be repeated has a key of its sender's, who gets a single reply for it. A short
request keeps its reply in its own transaction. A longer request (a poll that waits, a plan that git
must read) is reserved first; the reservation of a dead server ends after a while.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from math import inf
from typing import Final

from msgspec import Struct

from weft.errors import InputError, NotFound, StillAnswering, Unauthenticated
from weft.model import EVERY_AGENT, Token
from weft.store import row_records
from weft.store.database import Row, Transaction
from weft.store.store import reads, writes
from weft.store.workers import depart

SCOPES: Final = ("read", "work", "admin")
JOIN: Final = "join"
"""The scope of a token by which hosts join; no route needs it but the one of joining."""
CHECKS: Final = "checks"
"""The right of a host to report checks, on which trunk moves; its join token gave it."""

_TEXT: Final = re.compile(r"weft_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
_NOBODY: Final = hashlib.sha256(
    b""
).hexdigest()  # digest of an empty secret: secrets are never empty
_LONGEST_NAME: Final = 100
_AGENT: Final = re.compile(r"\*|[A-Za-z0-9][A-Za-z0-9_.-]{0,59}", re.ASCII)
_MOST_AGENTS: Final = 100


@writes
def create_token(
    tx: Transaction,
    *,
    name: str,
    scopes: Iterable[str],
    tenant: str | None = None,
    fence: int | None = None,
    agents: Iterable[str] = (),
    expires: float | None = None,
    now: float,
) -> tuple[Token, str]:
    """Make a token; return it with its text, which cannot be read again later.

    The token may send work to `agents`. Without any, it may send to agents whose files say `open:
    yes`, or to all if it is an admin's.
    """
    given = frozenset(scopes)
    _refuse_unusable(name, given, tenant)
    return _add_token(
        tx, name, given, tenant=tenant, fence=fence, agents=agents, expires=expires, now=now
    )


def _add_token(
    tx: Transaction,
    name: str,
    given: frozenset[str],
    *,
    tenant: str | None = None,
    fence: int | None = None,
    agents: Iterable[str] = (),
    expires: float | None,
    uses: int | None = None,
    worker: str | None = None,
    now: float,
) -> tuple[Token, str]:
    named = frozenset(agents)
    _refuse_agents(given, named)
    if "admin" in given:
        named = frozenset({EVERY_AGENT})
    if expires is not None and expires <= now:
        raise InputError("A token must expire in the future.")
    id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    tx.run(
        "add_token",
        id=id,
        hash=_digest(secret),
        name=name,
        scopes=" ".join(sorted(given)),
        tenant=tenant,
        fence=fence,
        agents=" ".join(sorted(named)),
        created=now,
        expires=expires,
        uses=uses,
        worker=worker,
    )
    if fence is None:  # the token of an attempt is part of its admission
        tx.event(
            "token_created",
            now=now,
            token=id,
            name=name,
            scopes=sorted(given),
            tenant=tenant,
            agents=sorted(named),
        )
    return get_token(tx, id), f"weft_{id}_{secret}"


_HOST_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)
_MOST_USES: Final = 1000
_VALID: Final = 30 * 86_400.0  # seconds that the token of a host is valid; the host renews it
_OVERLAP: Final = 300.0  # seconds that the old token stays valid: requests are under way with it


@writes
def create_join_token(
    tx: Transaction,
    *,
    name: str,
    uses: int,
    expires: float | None,
    now: float,
    checks: bool = False,
) -> tuple[Token, str]:
    """Make a token with which `uses` hosts can join, with the right to report checks or without;
    it is good for nothing else."""
    _refuse_name(name)
    if not 1 <= uses <= _MOST_USES:
        raise InputError(f"A token lets 1 to {_MOST_USES} hosts join, not {uses}.")
    scopes = frozenset({JOIN, CHECKS} if checks else {JOIN})
    return _add_token(tx, name, scopes, expires=expires, uses=uses, now=now)


@writes
def join_host(
    tx: Transaction, token: str, host: str, *, former: str = "", now: float
) -> tuple[Token, str]:
    """Exchange a use of a join token for the token of a host, with a new name.

    A host that shows a former token of its own keeps its name, under which its attempts and their
    output are found.
    """
    if not _HOST_NAME.fullmatch(host):
        raise InputError(f"{host[:100]!r} is no host name: letters, digits, `.`, `_` and `-`.")
    if not tx.count("use_token", id=token):
        raise Unauthenticated
    worker = _find_former_name(tx, former, now) or f"{host}-{secrets.token_hex(4)}"
    tx.event("host_joined", now=now, worker=worker, token=token)
    return _add_host_token(tx, worker, get_token(tx, token).scopes, now)


def _find_former_name(tx: Transaction, text: str, now: float) -> str | None:
    """Return the host of a token, which may have been revoked: the join token gives the right.

    Return None if that host is at work with another token: a copy of an old token takes no name.
    """
    row = _find_owner(tx, text)
    if row is None or row["worker"] is None:
        return None
    host: str = row["worker"]
    own = [token for token in tx.all("tokens_called", word=host) if token["worker"] == host]
    at_work = any(_is_valid(token, now) for token in own)
    return None if at_work and not _is_valid(row, now) else host


@writes
def renew_host_token(tx: Transaction, token: str, *, now: float) -> tuple[Token, str]:
    """Give a host a new token. Its present token stays valid until the host has confirmed the new
    token: the answer may be lost on the way."""
    present = get_token(tx, token)
    assert present.worker is not None
    return _add_host_token(tx, present.worker, present.scopes, now)


@writes
def confirm_host_token(tx: Transaction, token: str, *, now: float) -> None:
    """Let the other tokens of a host end soon: the host has kept this token."""
    kept = get_token(tx, token)
    tx.run("let_other_tokens_expire", id=token, worker=kept.worker, expires=now + _OVERLAP)


def _add_host_token(
    tx: Transaction, worker: str, given: frozenset[str], now: float
) -> tuple[Token, str]:
    name, scopes = f"host {worker}", frozenset({"read"}) | (given & {CHECKS})
    return _add_token(tx, name, scopes, expires=now + _VALID, worker=worker, now=now)


def _refuse_name(name: str) -> None:
    if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise InputError(f"A token needs a name of up to {_LONGEST_NAME} printable characters.")


def _refuse_unusable(name: str, scopes: frozenset[str], tenant: str | None) -> None:
    _refuse_name(name)
    if not scopes or not scopes <= set(SCOPES):
        raise InputError(f"A token's scopes are some of {', '.join(SCOPES)}.")
    if tenant is not None and not (tenant and tenant.isprintable() and len(tenant) <= 100):
        raise InputError("A tenant's name has up to 100 printable characters.")


def _refuse_agents(scopes: frozenset[str], agents: frozenset[str]) -> None:
    if not agents:
        return
    if "admin" in scopes:
        raise InputError("An admin sends work to every agent; leave the agents out.")
    if "work" not in scopes:
        raise InputError("Only a token with the scope work sends tasks; leave the agents out.")
    wrong = sorted(agent for agent in agents if not _AGENT.fullmatch(agent))
    if wrong:
        raise InputError(
            f"{wrong[0]!r} is no agent's name; write the names of agent files, or {EVERY_AGENT}."
        )
    if len(agents) > _MOST_AGENTS:
        raise InputError(f"A token names up to {_MOST_AGENTS} agents; {EVERY_AGENT} means all.")


@reads
def list_tokens(tx: Transaction) -> list[Token]:
    """List all tokens but those of attempts."""
    return [_token(row) for row in tx.all("tokens")]


@reads
def page_tokens(tx: Transaction, *, after: str | None, most: int) -> tuple[list[Token], str | None]:
    """Return a page of tokens after a token, and the last of it, or None at the end."""
    if after is not None:
        get_token(tx, after)
    rows = tx.all("tokens_after", after=after, most=most + 1)
    tokens = [_token(row) for row in rows[:most]]
    return tokens, tokens[-1].id if len(rows) > most else None


@writes
def revoke_token(tx: Transaction, id: str, *, now: float) -> bool:
    """Revoke a token, with all tokens of its host; return False if it was revoked before.

    The workers of that host depart: no request of theirs is taken any more. Their leases stay in
    use until their death is proved.
    """
    host = get_token(tx, id).worker
    if not tx.count("revoke_token", id=id, now=now):
        return False
    if host is not None:
        tx.run("revoke_tokens_of_host", worker=host, now=now)
        for row in tx.all("workers_present"):
            if row["host"] == host:
                depart(tx, row["id"], now=now)
    tx.event("token_revoked", now=now, token=id)
    return True


@reads
def find_token(tx: Transaction, word: str, *, now: float) -> Token:
    """Return the token with this id, or the only valid token with this name or of this host.

    If none is valid, return the latest. Raise `InputError` if several are valid.
    """
    tokens = [_token(row) for row in tx.all("tokens_called", word=word)]
    named = [token for token in tokens if token.id == word] or tokens
    if not named:
        raise NotFound(f"There is no token {word}; `weft token list` shows ids and names.")
    valid = [
        token
        for token in named
        if token.revoked is None and token.uses != 0 and now < (token.expires or inf)
    ]
    if len({token.worker or token.id for token in valid}) > 1:
        ids = ", ".join(token.id for token in valid)
        raise InputError(f"{len(valid)} tokens are called {word}: give one of the ids {ids}.")
    return (valid or named)[-1]


def is_token(text: str) -> bool:
    """Tell whether a text has the form of a token."""
    return _TEXT.fullmatch(text) is not None


@reads
def identify(tx: Transaction, text: str, *, now: float) -> Token:
    """Return the token of this text. Raise `Unauthenticated` for any text that is not valid."""
    row = _find_owner(tx, text)
    if row is None or not _is_valid(row, now):
        raise Unauthenticated
    return _token(row)


def _find_owner(tx: Transaction, text: str) -> Row | None:
    """Return the row of the token with this text, valid or not."""
    match = _TEXT.fullmatch(text)
    id, secret = match.groups() if match else ("", "")
    row = tx.one("token", id=id)
    known = row["hash"] if row is not None else _NOBODY
    same = hmac.compare_digest(known, _digest(secret))
    return row if same and match else None


@reads
def refuse_revoked(tx: Transaction, id: str, *, now: float) -> None:
    """Raise if a token has been revoked or has expired since its owner began to wait.

    An identity without a token cannot be revoked.
    """
    row = tx.one("token", id=id) if id else None
    if row is not None and not _is_valid(row, now):
        raise Unauthenticated


def _is_valid(row: Row, now: float) -> bool:
    in_time = row["revoked"] is None and (row["expires"] is None or now < row["expires"])
    return in_time and (row["fence"] is None or row["lease_state"] in ("held", "suspect"))


@reads
def get_token(tx: Transaction, id: str) -> Token:
    row = tx.one("token", id=id)
    if row is None:
        raise NotFound(f"There is no token {id}.")
    return _token(row)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _token(row: Row) -> Token:
    return row_records.record(
        Token,
        row,
        scopes=row["scopes"].split(),
        task=row["lease_task"],
        agents=None if row["agents"] is None else row["agents"].split(),
    )


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


KEPT: Final = 86_400.0  # seconds for which a reply is kept
_GIVEN_UP: Final = 300.0  # seconds after which a reservation ends


class RepeatableRequest(Struct, frozen=True, kw_only=True):
    """The parts of a request that its repetition must equal."""

    token: str  # the sender's
    key: str
    request: str  # digest of method, path and body


class StoredReply(Struct, frozen=True, kw_only=True):
    status: int
    body: str


def find_reply(tx: Transaction, asked: RepeatableRequest, *, now: float) -> StoredReply | None:
    """Return the reply that was kept. Raise if the key was used for another request, or just
    now."""
    row = tx.one("reply", token=asked.token, key=asked.key)
    if row is None or row["at"] <= now - KEPT:
        return None
    if row["request"] != asked.request:
        raise InputError("This idempotency key was used for another request; take a new one.")
    if row["status"] is not None:
        return StoredReply(status=int(row["status"]), body=row["body"])
    if row["at"] > now - _GIVEN_UP:
        raise StillAnswering
    return None


def keep_reply(
    tx: Transaction, asked: RepeatableRequest, reply: StoredReply | None, *, now: float
) -> None:
    """Keep a reply, or None to reserve the request."""
    status, body = (None, "") if reply is None else (reply.status, reply.body)
    tx.run("keep_reply", asked, status=status, body=body, now=now)


@writes
def reserve_reply(tx: Transaction, asked: RepeatableRequest, *, now: float) -> StoredReply | None:
    """Reserve a request, or return the reply that was kept."""
    before = find_reply(tx, asked, now=now)
    if before is None:
        keep_reply(tx, asked, None, now=now)
    return before


@writes
def fill_reply(
    tx: Transaction, asked: RepeatableRequest, reply: StoredReply | None, *, now: float
) -> None:
    """Keep the reply of a reserved request; None releases it, so that it may be tried again."""
    if reply is None:
        tx.run("drop_reply", token=asked.token, key=asked.key)
    else:
        keep_reply(tx, asked, reply, now=now)


@writes
def forget_replies(tx: Transaction, *, now: float) -> None:
    tx.run("forget_replies", before=now - KEPT)
