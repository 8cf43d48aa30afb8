"""A process that admits and hands back as fast as it can, for a given time."""

from __future__ import annotations

import sys
import time

from weft.store import open_store
from weft.store.admission import admit
from weft.store.leases import release

with open_store(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    end = time.monotonic() + float(sys.argv[3])
    count = 0
    while time.monotonic() < end:
        for grant in admit(store, sys.argv[2], now=1.0):
            release(store, grant.fence, now=1.0)
            count += 1
print(count)
