"""Waiting for news of one task: what its agent polls for."""

from __future__ import annotations

import time
from typing import Final

import anyio

from weft.api.mcp.caller import Call
from weft.store.ring import wait_rung
from weft.swarm.lead_news import news
from weft.swarm.swarm_records import Trigger

_NET: Final = 5.0  # seconds after which to look although nobody rang
_REST: Final = 0.1  # between two looks: a busy store rings all the time


async def wait_for_news(call: Call, *, wait: float, ack: str | None) -> Trigger | None:
    """Few wait here, one for each agent that weft runs; so each listens for itself."""
    end = anyio.current_time() + wait
    with call.store.listen("events") as listener:
        while True:
            found = await call.ask(news, ack=ack, now=time.time())
            left = end - anyio.current_time()
            if found is not None or left <= 0 or call.leaving.is_set():
                return found
            await wait_rung(listener, seconds=min(left, _NET), event=call.leaving)
            await anyio.sleep(_REST)
