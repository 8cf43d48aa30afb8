"""The operations on tokens: of people and programs for admins, of worker hosts for the hosts."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict

from weft import bounds
from weft.model import Token
from weft.operations.identity import ADMIN, HOST, JOIN
from weft.operations.member_records import JoinedHost
from weft.operations.reading import NothingAsked, PageAsked
from weft.operations.registry import Occasion, operation
from weft.project.own_repository import get_repository
from weft.store import tokens
from weft.store.tokens import CHECKS, confirm_host_token, join_host, page_tokens, renew_host_token

Name = Annotated[str, Meta(min_length=1, max_length=bounds.NAME)]


class NewToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    scopes: Annotated[list[Literal["read", "work", "admin"]], Meta(min_length=1, max_length=3)]
    tenant: Annotated[
        Name | None, Meta(description="Its tasks take turns with those of other tenants.")
    ] = None
    agents: Annotated[
        list[Name],
        Meta(
            max_length=100,
            description="The agents it sends work to, `*` for all; none: those that are "
            "`open: yes`.",
        ),
    ] = []
    expires_in: Annotated[
        Annotated[float, Meta(gt=0, le=bounds.NUMBER)] | None,
        Meta(description="Seconds; never, if left out."),
    ] = None


class TokenAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, max_length=100)]


class NewHost(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=63)]
    former: Annotated[str, Meta(max_length=500, description="An earlier token of this host.")] = ""


class TokenPage(Struct, frozen=True, kw_only=True):
    tokens: tuple[Token, ...]
    after: str | None  # for the next page; null: this was the last


class Revoked(Struct, frozen=True, kw_only=True):
    id: str
    revoked: bool


class MadeToken(Token, frozen=True, kw_only=True):
    """A token and, this once, its secret."""

    secret: str


@operation(
    "Make a token",
    ADMIN,
    http="POST /tokens",
    status=201,
    says=lambda made: f"Token {made.id} is made.",
    secret="secret",  # noqa: S106  # a name
    is_tool=False,
)
def create_token(setting: Occasion, asked: NewToken) -> MadeToken:
    """Make a token. Its secret is shown once; a repetition with the same key gets none."""
    token, secret = tokens.create_token(
        setting.store,
        name=asked.name,
        scopes=asked.scopes,
        tenant=asked.tenant,
        agents=asked.agents,
        expires=None if asked.expires_in is None else setting.now + asked.expires_in,
        now=setting.now,
    )
    return MadeToken(**asdict(token), secret=secret)


@operation(
    "List tokens",
    ADMIN,
    http="GET /tokens",
    says=lambda page: f"{len(page.tokens)} token(s).",
    is_tool=False,
)
def list_tokens(setting: Occasion, asked: PageAsked) -> TokenPage:
    """Tokens, oldest first; `after` of the answer is for the next page."""
    listed, more = page_tokens(setting.store, after=asked.after, most=asked.most)
    return TokenPage(tokens=tuple(listed), after=more)


@operation(
    "Revoke a token",
    ADMIN,
    http="DELETE /tokens/{id}",
    says=lambda done: f"Token {done.id} is revoked.",
    is_tool=False,
)
def revoke_token(setting: Occasion, asked: TokenAsked) -> Revoked:
    """Revoke a token."""
    revoked = tokens.revoke_token(setting.store, asked.id, now=setting.now)
    return Revoked(id=asked.id, revoked=revoked)


@operation(
    "Let a host join",
    JOIN,
    http="POST /hosts",
    status=201,
    says=lambda made: f"{made.host} has joined.",
    secret="secret",  # noqa: S106  # a name
    is_tool=False,
)
def join_as_host(setting: Occasion, asked: NewHost) -> JoinedHost:
    """Let a host join: a use of a join token becomes a token of that host, shown once.

    A host that shows a former token of its own, even if that was revoked, keeps its name.
    """
    made = join_host(
        setting.store, setting.who.token, asked.name, former=asked.former, now=setting.now
    )
    return _show_host(setting, *made)


@operation(
    "Renew the token of a host",
    HOST,
    http="POST /hosts/token",
    status=201,
    says=lambda made: f"{made.host} has a new token.",
    secret="secret",  # noqa: S106  # a name
    is_tool=False,
)
def renew_own_token(setting: Occasion, _asked: NothingAsked) -> JoinedHost:
    """Give a host a new token; the token it shows is valid until the new one is confirmed."""
    return _show_host(setting, *renew_host_token(setting.store, setting.who.token, now=setting.now))


@operation(
    "Confirm the token of a host",
    HOST,
    http="POST /hosts/token/confirmation",
    status=204,
    says=lambda _: "The token is confirmed.",
    is_tool=False,
)
def confirm_own_token(setting: Occasion, _asked: NothingAsked) -> None:
    """Confirm that the host has kept the token it shows; its others end five minutes later."""
    confirm_host_token(setting.store, setting.who.token, now=setting.now)


def _show_host(setting: Occasion, token: Token, secret: str) -> JoinedHost:
    assert token.worker is not None
    assert token.expires is not None
    return JoinedHost(
        host=token.worker,
        repository=get_repository(setting.project.root, setting.store),
        expires=token.expires,
        secret=secret,
        checks=CHECKS in token.scopes,
    )
