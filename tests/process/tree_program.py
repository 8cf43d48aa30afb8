"""An agent with a difficult family. Usage: TOKEN OWN [KIND...]

OWN is what the agent itself does once its family is there: `stay`, `ignore` (stay and ignore
TERM), `leave` (exit 7). KIND is one descendant each:

    child      sleeps                         stubborn   a grandchild that ignores TERM
    daemon     left session, group, parent    closed     a daemon that closed every descriptor
    cleared    a closed daemon that also cleared its environment
    unmarked   like cleared, but still in the agent's session
    obedient   a daemon that prints "heard TERM" when it is asked to end, and ends

Every process has TOKEN on its command line, by which an outside observer finds it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import NoReturn

DAEMONS = ("daemon", "closed", "cleared", "obedient")


def obey(*_: object) -> NoReturn:
    os.write(1, b"heard TERM\n")
    os._exit(0)


def sleep_for_ever() -> NoReturn:
    while True:
        time.sleep(1000)


def close_all() -> None:
    os.closerange(0, 256)


def become(kind: str, ready: int) -> NoReturn:
    if kind in DAEMONS:
        os.setsid()
    if (kind in DAEMONS or kind == "unmarked") and os.fork():
        os._exit(0)
    if kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork():
            sleep_for_ever()
    if kind == "obedient":
        signal.signal(signal.SIGTERM, obey)
    if kind in ("cleared", "unmarked"):
        # Descriptor 9 outlives the exec; the next program reports on it and closes it.
        os.dup2(ready, 9)
        arguments = [sys.executable, "-S", __file__, sys.argv[1], "report"]
        os.execve(sys.executable, arguments, {})
    report(kind, ready)


def report(kind: str, ready: int) -> NoReturn:
    os.write(ready, b".")
    if kind in ("closed", "cleared"):
        close_all()
    sleep_for_ever()


def main(own: str, kinds: list[str]) -> None:
    if own == "report":
        report("cleared", 9)
    read, write = os.pipe()
    for kind in kinds:
        child = os.fork()
        if child == 0:
            become(kind, write)
        if kind in DAEMONS or kind == "unmarked":
            os.waitpid(child, 0)
    for _ in kinds:
        os.read(read, 1)
    if own == "ignore":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b"ready\n")
    if own == "leave":
        sys.exit(7)
    sleep_for_ever()


if __name__ == "__main__":
    main(sys.argv[2], sys.argv[3:])
