"""Messages to running tasks and to members."""

from __future__ import annotations

from weft.model import Message
from weft.operations.swarm.identity import Identity
from weft.store import Store


def send_message(
    store: Store,
    who: Identity,
    text: str,
    *,
    task: int | None = None,
    member: str | None = None,
    sender: str | None = None,
    now: float,
) -> Message:
    raise NotImplementedError


def read_messages(
    store: Store,
    who: Identity,
    *,
    task: int | None = None,
    member: str | None = None,
    ack: str | None = None,
    now: float,
) -> tuple[tuple[Message, ...], str | None]:
    """Those not yet confirmed, and what confirms them when given back."""
    raise NotImplementedError
