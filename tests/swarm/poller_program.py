"""A member in a process of its own: polls as fast as it can until told that there is no more."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from weft.operations import long_poll
from weft.operations.identity import Identity
from weft.store import open_store

OWNER = Identity("t-owner", "owner", frozenset({"work"}))


def main(url: str, member: str, begin: str) -> None:
    with open_store(url) as store:
        tell("ready")
        while not Path(begin).exists():
            time.sleep(0.001)
        got = []
        while (found := long_poll.poll(store, OWNER, member, now=time.time())) is not None:
            assert found.task is not None
            got.append((found.task.task, found.task.fence))
    tell(json.dumps(got))


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
