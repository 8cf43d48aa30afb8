"""The leases that a process holds for its gates and checks: renewed until released or lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import anyio
from anyio.to_thread import run_sync
from msgspec import Struct

from weft.errors import StoreError
from weft.process.process_identity import boottime
from weft.project.site import Site
from weft.store.leases import release, renew

log = logging.getLogger(__name__)


class HeldLease(Struct, frozen=True, kw_only=True):
    renewed: Callable[[float], None]  # called with the boot time of a renewal
    lost: Callable[[], None]  # called when the fence is no longer current


class HeldLeases:
    """Leases by fence. The store may be unable to release a lease at once; each renewal tries
    again."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._held: dict[int, HeldLease] = {}
        self._ended: set[int] = set()

    def hold(
        self,
        fence: int,
        *,
        lost: Callable[[], None],
        renewed: Callable[[float], None] = lambda sent: None,
    ) -> None:
        """Renew a lease from now on until `release`."""
        self._held[fence] = HeldLease(renewed=renewed, lost=lost)

    async def keep_renewed(self) -> None:
        while True:
            await anyio.sleep(self._site.config.tuning.heartbeat)
            await self.release()
            fences, sent = list(self._held), boottime()
            if not fences:
                continue
            try:
                lost = await run_sync(self._renew, fences)
            except StoreError as error:
                log.warning("could not renew the leases of checks and gates: %s", error)
                continue
            for fence, lease in [(fence, self._held.get(fence)) for fence in fences]:
                if lease is not None:
                    lease.lost() if fence in lost else lease.renewed(sent)

    def _renew(self, fences: list[int]) -> list[int]:
        return renew(self._site.store, fences, now=time.time())

    async def release(self, *fences: int) -> None:
        """Release these leases, and those that could not be released before."""
        self._ended.update(fences)
        for fence in fences:
            self._held.pop(fence, None)
        for fence in sorted(self._ended):
            with anyio.CancelScope(shield=True):
                try:
                    await run_sync(self._release, fence)
                except StoreError as error:
                    log.warning("lease %s cannot be released yet: %s", fence, error)
                    return
                self._ended.discard(fence)

    def _release(self, fence: int) -> None:
        release(self._site.store, fence, now=time.time(), reason="ended")
