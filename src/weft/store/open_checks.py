"""Checks under way, at home and on worker hosts."""

from __future__ import annotations

import json
from typing import Final

from msgspec import Struct

from weft.store.check_orders import is_ordered
from weft.store.database import Transaction
from weft.store.leases import list_open
from weft.store.store import reads

_LATELY: Final = 5000  # events that are searched for the entries of a check


class OpenCheck(Struct, frozen=True, kw_only=True):
    """A check under way."""

    since: float
    entries: tuple[str, ...]  # empty: not known any more
    fence: int = 0
    host: str = ""  # the worker host that runs it; '': home


@reads
def list_checks(tx: Transaction, run: str) -> list[OpenCheck]:
    """List the checks of a run that are under way, oldest first."""
    taken = [json.loads(row["data"]) for row in tx.all("lately_taken", most=_LATELY)]
    entries = {event["fence"]: tuple(event["entries"]) for event in taken}
    return [
        OpenCheck(
            since=lease.granted,
            entries=entries.get(lease.fence, ()),
            fence=lease.fence,
            host=(lease.host or "") if is_ordered(tx, lease.fence) else "",
        )
        for lease in list_open(tx)
        if (lease.kind, lease.holder) == ("check", run)
    ]
