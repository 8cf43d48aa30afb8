"""Worker hosts: they join with a token that is good for that alone, and renew their own."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field

from weft.api.http.auth import OWN
from weft.api.http.openapi import answers
from weft.api.http.requests import ShownOnce, act, parts_of
from weft.errors import Forbidden
from weft.model import Token
from weft.operations.identity import Identity
from weft.operations.member_records import JoinedHost
from weft.project.own_repository import get_repository
from weft.store import Store
from weft.store.tokens import CHECKS, confirm_host_token, join_host, renew_host_token

router = APIRouter(prefix="/hosts", tags=["hosts"])


class NewHost(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=63)]
    former: Annotated[str, Field(max_length=500)] = ""  # an earlier token of this host


@router.post("", status_code=201, openapi_extra=answers(JoinedHost))
async def join(request: Request, body: NewHost) -> Response:
    """Let a host join: a use of a join token becomes a token of that host, shown once.

    A host that shows a former token of its own, even if that was revoked, keeps its name.
    """
    project = parts_of(request).project

    def work(store: Store, who: Identity, now: float) -> ShownOnce:
        if "join" not in who.scopes:
            raise Forbidden("This needs a token that lets hosts join (weft token create --join).")
        made = join_host(store, who.token, body.name, former=body.former, now=now)
        return _shown(*made, get_repository(project.root, store))

    return await act(request, OWN, work, status=201)


@router.post("/token", status_code=201, openapi_extra=answers(JoinedHost))
async def renew(request: Request) -> Response:
    """Give a host a new token; the token it shows is valid until the new one is confirmed."""
    project = parts_of(request).project

    def work(store: Store, who: Identity, now: float) -> ShownOnce:
        if who.worker is None:
            raise Forbidden("Only a worker host renews its token.")
        made = renew_host_token(store, who.token, now=now)
        return _shown(*made, get_repository(project.root, store))

    return await act(request, OWN, work, status=201)


@router.post("/token/confirmation", status_code=204)
async def confirm(request: Request) -> Response:
    """Confirm that the host has kept the token it shows; its others end five minutes later."""

    def work(store: Store, who: Identity, now: float) -> None:
        if who.worker is None:
            raise Forbidden("Only a worker host confirms its token.")
        confirm_host_token(store, who.token, now=now)

    return await act(request, OWN, work, status=204)


def _shown(token: Token, secret: str, repository: str) -> ShownOnce:
    assert token.worker is not None
    assert token.expires is not None
    host = JoinedHost(
        host=token.worker,
        repository=repository,
        expires=token.expires,
        secret=secret,
        checks=CHECKS in token.scopes,
    )
    return ShownOnce(shown=host, kept=replace(host, secret=""))
