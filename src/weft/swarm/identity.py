"""The identity of a caller, and its rights. The faces establish it; this module only compares.

An identity is limited in three ways: by scopes (each includes the scope before: read, work, admin),
by the agents it sends work to, and, if it was made for an attempt, by that attempt.
The identity of an attempt sees its own task and the tasks that this task needs. It sees more only
with the scope `work`, as a lead has.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from weft.agents.agent import Agent
from weft.errors import Forbidden
from weft.model import EVERY_AGENT, Token, Worker, WorkerKind

READ: Final = "read"
WORK: Final = "work"
ADMIN: Final = "admin"

_INCLUDED: Final = {
    READ: frozenset({READ, WORK, ADMIN}),
    WORK: frozenset({WORK, ADMIN}),
    ADMIN: frozenset({ADMIN}),
}


class Identity(Struct, frozen=True):
    """A caller: the owner of a token, or an agent by the token of its attempt."""

    token: str  # its id
    name: str
    scopes: frozenset[str]
    tenant: str | None = None  # for which its tasks take turns
    fence: int | None = None  # the attempt it was made for
    task: int | None = None  # the task of that attempt
    agents: frozenset[str] | None = frozenset()  # agents it sends work to; see `model.Token`
    worker: str | None = None  # the host that it was given to

    @property
    def subject(self) -> str:
        """The name under which its tasks and messages are stored."""
        if self.fence is not None:
            return f"task {self.task}"
        return f"token {self.token}" if self.token else self.name


LOCAL: Final = Identity(token="", name="local", scopes=frozenset({READ, WORK, ADMIN}))
"""The identity of a process that opens the store itself."""


def from_token(token: Token) -> Identity:
    return Identity(
        token=token.id,
        name=token.name,
        scopes=token.scopes,
        tenant=token.tenant,
        fence=token.fence,
        task=token.task,
        agents=token.agents,
        worker=token.worker,
    )


def has(who: Identity, scope: str) -> bool:
    return bool(who.scopes & _INCLUDED[scope])


def need(who: Identity, scope: str) -> None:
    """Raise `Forbidden` if the caller lacks a scope, or has it for a single attempt."""
    if is_bound(who):
        raise Forbidden("This token is for one task, and may not do that.")
    if not has(who, scope):
        raise Forbidden(f"This needs a token with the scope {scope}.")


def is_bound(who: Identity) -> bool:
    """Tell whether the token was made for an attempt and sees no other tasks."""
    return who.fence is not None and not has(who, WORK)


def sends_to_all(who: Identity) -> bool:
    return has(who, ADMIN) or who.agents is None or EVERY_AGENT in who.agents


def need_agent(who: Identity, agent: Agent) -> None:
    """Raise `Forbidden` if the token does not include this agent of the repository.

    A lead's token includes the agents in `sends_to` of its file. Any other token that names no
    agents includes those whose files say `open: yes`.
    """
    if sends_to_all(who) or agent.name in (who.agents or ()):
        return
    if who.fence is not None:
        raise Forbidden(
            f"This agent may not send work to {agent.name}; "
            f"`sends_to: {agent.name}` in its agent file allows it."
        )
    if who.agents or not agent.open:
        raise Forbidden(
            f"This token may not send work to the agent {agent.name}. An admin can make a token "
            f"that may (weft token create NAME --agents {agent.name})"
            + ("." if who.agents else f", or write `open: yes` into {agent.file}.")
        )


def need_member(who: Identity, worker: Worker) -> None:
    """Refuse to act as a member, except for the token it joined with and admins."""
    need(who, WORK)
    if worker.kind is not WorkerKind.API:
        raise Forbidden(f"{worker.id} is a weft process, and only that process acts for it.")
    if worker.token != who.token and not has(who, ADMIN):
        raise Forbidden(f"{worker.id} joined with another token.")
