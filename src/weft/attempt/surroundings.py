"""The user's checkout, branches, settings and hooks, before an attempt and after it.

They may have changed because the user works there too; so it is told, and nothing follows.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Final

from weft import workspace
from weft.attempt.order import Order
from weft.attempt.site import Site
from weft.errors import Refused, StoreError, WeftError
from weft.process import records
from weft.store.leases import note
from weft.workspace import Fingerprint

log = logging.getLogger(__name__)

_FILE: Final = "surroundings.json"
_MOST: Final = 20  # changes that are told one by one


def remember(site: Site, directory: Path) -> None:
    try:
        records.write(str(directory / _FILE), asdict(site.looks.recent(site.root)))
    except (WeftError, OSError, ValueError) as error:
        log.warning("the checkout could not be looked at: %s", error)


def compare(site: Site, fence: int, order: Order, after: Future[Fingerprint]) -> None:
    """Tell what changed since, as an event; once. `after` is a look since the agent's end."""
    path = site.directory(order.task, order.attempt) / _FILE
    try:
        record = records.find(str(path))
        if record is None:
            return
        found = workspace.compare(Fingerprint(**record), after.result())
        if found:
            told = {"attempt": order.attempt, "changes": list(found[:_MOST]), "all": len(found)}
            note(site.store, fence, "surroundings_changed", told, now=time.time())
        path.unlink()
    except (StoreError, Refused):
        log.info("what changed around task %s could not be told", order.task)
    except (WeftError, OSError, ValueError) as error:
        log.warning("the checkout could not be looked at: %s", error)
