"""An engine to be killed: ROOT URL SLOTS. Works until asked to stop; 0 if that went well."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import anyio

from weft import config
from weft.engine import Interrupted, open_site, serving
from weft.store import open_store


async def main(root: Path, url: str, slots: int) -> None:
    settings = config.load(root, {})
    with (
        open_store(url, tuning=settings.tuning) as store,
        open_site(store, root, settings, dict(os.environ)) as site,
    ):
        try:
            async with serving(site, slots=slots) as scheduler:
                (root.parent / f"engine-{os.getpid()}").write_text(scheduler.worker)
                await anyio.sleep_forever()
        except Interrupted:
            return


if __name__ == "__main__":
    logging.basicConfig(level=os.environ.get("WEFT_TEST_LOG", "ERROR"))
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
