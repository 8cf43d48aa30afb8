"""Waiting for what must happen, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 150.0  # seconds for what must happen; nothing is tested by how long it takes


def wait_until(
    condition: Callable[[], object], what: str = "what was waited for", seconds: float = PATIENCE
) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"after {seconds:.0f} s still not: {what}"
        time.sleep(0.01)
