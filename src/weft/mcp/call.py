"""Who calls a tool, and how a tool asks the store on its behalf."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

import anyio
from anyio.to_thread import run_sync

from weft.errors import Refused
from weft.operations.project import Project
from weft.operations.swarm.identity import Identity
from weft.store import Store
from weft.waiting import Room

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Call:
    store: Store
    room: Room  # where polls wait; somebody runs it
    project: Project  # for which plans are submitted
    who: Identity
    leaving: anyio.Event  # set when nobody shall be kept waiting any longer

    async def ask(
        self,
        function: Callable[Concatenate[Store, Identity, P], T | Refused],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        """Ask an operation of the swarm as the caller, in a thread of its own."""
        done = await run_sync(partial(function, self.store, self.who, *args, **named))
        if isinstance(done, Refused):  # what was done all the same is stored by now
            raise done
        return done
