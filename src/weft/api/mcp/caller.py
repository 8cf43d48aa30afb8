"""The caller of a tool, and its way to the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

import anyio

from weft.api.threads import Threads
from weft.errors import Refused
from weft.operations.identity import Identity
from weft.operations.long_poll import Room
from weft.project.project import Project
from weft.store import Store

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Call:
    store: Store
    room: Room  # polls wait here; the server runs it
    project: Project  # for which plans are submitted
    who: Identity
    leaving: anyio.Event  # set when polls shall return at once
    threads: Threads

    async def ask(
        self,
        function: Callable[Concatenate[Store, Identity, P], T | Refused],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        """Call an operation of the swarm as the caller, in a thread."""
        work = partial(function, self.store, self.who, *args, **named)
        done = await self.threads.run(self.who.token, work)
        if isinstance(done, Refused):  # its effects are stored by now
            raise done
        return done
