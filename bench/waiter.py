"""A worker process for the measurements: waits for work and prints when it got it."""

from __future__ import annotations

import sys

from bench.measure_wake import wait_for_work
from weft.store import open_store

with open_store(sys.argv[1]) as store:
    print("waiting", flush=True)
    for moment in wait_for_work(store, "w0", int(sys.argv[2])):
        print(repr(moment))
