"""The `ack` that a client gives back to confirm messages or notices; opaque to clients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from weft.errors import InputError
from weft.model import Message, Notice

_ACK: Final = re.compile(r"([me])([0-9]{1,18})", re.ASCII)


def of_messages(messages: Sequence[Message]) -> str | None:
    return f"m{messages[-1].id}" if messages else None


def of_notices(notices: Sequence[Notice]) -> str | None:
    return f"e{notices[-1].event}" if notices else None


def confirmed_messages(ack: str | None) -> int | None:
    """Return the last confirmed message, if the `ack` is about messages."""
    return _number(ack, "m")


def confirmed_notices(ack: str | None) -> int | None:
    return _number(ack, "e")


def _number(ack: str | None, kind: str) -> int | None:
    if ack is None:
        return None
    match = _ACK.fullmatch(ack)
    if match is None:
        raise InputError("This is not an `ack` that weft gave; leave it out.")
    return int(match[2]) if match[1] == kind else None
