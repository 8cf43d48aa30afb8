"""An engine to be killed: ROOT URL SLOTS BUILD. Works until asked to stop; 0 if that went well.

A weakened build has exactly one safeguard taken out, for tests to show that they notice.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import anyio

from weft import config
from weft.attempt import attempt
from weft.store import open_store
from weft.worker import engine, scheduler
from weft.worker.engine import Interrupted, open_site, serving


def weaken(build: str) -> None:
    match build:
        case "time frees":  # a lease past its deadline is free, whoever still runs
            vars(engine)["prove_dead"] = lambda site, lease: "its time is over"
        case "no offset":  # an adopter begins with the first line
            vars(attempt)["reported_before"] = lambda site, task, attempt: 0
        case "forget":  # who is left running by a dead worker is nobody's business
            vars(scheduler)["find_orphans"] = lambda site, here: []


async def main(root: Path, url: str, slots: int) -> None:
    settings = config.load(root, {})
    with (
        open_store(url, tuning=settings.tuning) as store,
        open_site(store, root, settings, dict(os.environ)) as site,
    ):
        try:
            async with serving(site, slots=slots) as scheduler:
                await anyio.sleep(0)  # for whoever obeys signals to begin
                (root.parent / f"engine-{os.getpid()}").write_text(scheduler.worker)
                await anyio.sleep_forever()
        except Interrupted:
            return


if __name__ == "__main__":
    logging.basicConfig(level=os.environ.get("WEFT_TEST_LOG", "ERROR"))
    weaken(sys.argv[4])
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
