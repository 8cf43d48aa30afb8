"""Reading without the garbage collector.

A large plan becomes some hundred thousand small records that all stay. Python's collector looks
through them again and again while they grow, for a fifth of the time, and finds next to nothing:
what is dropped on the way is freed at once, since hardly anything here refers back to itself.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Leave the collector as it was; whoever found it running starts it again."""
    was_running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_running:
            gc.enable()
