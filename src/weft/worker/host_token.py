"""The token of a worker host, renewed while its worker runs."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
from anyio.to_thread import run_sync

from weft.errors import InputError, StoreError
from weft.project.worker_host import HostFiles, renew

log = logging.getLogger(__name__)


async def renew_loop(
    url: str, host: str, files: HostFiles, seconds: float, use: Callable[[str], None]
) -> None:
    """Renew the token in time; call `use` for each new token, whichever worker renewed it.

    Raise `Unauthenticated` if the server has ended the token.
    """
    current, problem = "", ""
    while True:
        try:
            known = await run_sync(renew, url, files)
        except (StoreError, InputError, OSError) as error:
            if str(error) != problem:
                log.warning("could not renew the token of this host yet: %s", error)
            problem = str(error)
        else:
            problem = ""
            if known.host == host and known.secret != current:  # not a host that joined anew
                current = known.secret
                use(current)
        await anyio.sleep(seconds)
