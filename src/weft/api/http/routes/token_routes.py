"""Tokens, for admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from weft.api.http import bodies, wire
from weft.api.http.openapi import answers
from weft.api.http.requests import ShownOnce, act, look
from weft.operations.identity import ADMIN, Identity
from weft.store import Store
from weft.store.tokens import create_token, page_tokens, revoke_token

router = APIRouter(prefix="/tokens", tags=["tokens"])


@router.post("", status_code=201, openapi_extra=answers(wire.MadeToken))
async def create(request: Request, body: bodies.NewToken) -> Response:
    """Make a token. Its secret is shown once; a repetition with the same key gets none."""

    def work(store: Store, who: Identity, now: float) -> ShownOnce:
        token, secret = create_token(
            store,
            name=body.name,
            scopes=body.scopes,
            tenant=body.tenant,
            agents=body.agents,
            expires=None if body.expires_in is None else now + body.expires_in,
            now=now,
        )
        shown = wire.show(token)
        return ShownOnce(shown={**shown, "secret": secret}, kept={**shown, "secret": ""})

    return await act(request, ADMIN, work, status=201)


@router.get("", openapi_extra=answers(wire.TokenPage))
async def list_all(
    request: Request, after: bodies.After = None, most: bodies.Most = 50
) -> Response:
    """Tokens, oldest first; `after` of the answer is for the next page."""

    def work(store: Store, who: Identity, now: float) -> object:
        tokens, more = page_tokens(store, after=after, most=most)
        return wire.show(wire.TokenPage(tokens=tuple(tokens), after=more))

    return await look(request, ADMIN, work)


@router.delete("/{id}", openapi_extra=answers(wire.Revoked))
async def revoke(
    request: Request, id: Annotated[str, Path(min_length=1, max_length=100)]
) -> Response:
    """Revoke a token."""

    def work(store: Store, who: Identity, now: float) -> wire.Revoked:
        return {"id": id, "revoked": revoke_token(store, id, now=now)}

    return await act(request, ADMIN, work)
