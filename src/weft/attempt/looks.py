"""Looks at the user's checkout. One is enough for an attempt that ends and the next that starts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from weft import workspace
from weft.workspace import Fingerprint

_RECENT: Final = 1.0  # seconds


class Looks:
    def __init__(self) -> None:
        self._last: tuple[float, Fingerprint] | None = None

    def now(self, root: Path) -> Fingerprint:
        began = time.monotonic()
        seen = workspace.fingerprint(root)
        self._last = began, seen
        return seen

    def recent(self, root: Path) -> Fingerprint:
        """As it was a moment ago, or is now."""
        if self._last is not None and time.monotonic() - self._last[0] < _RECENT:
            return self._last[1]
        return self.now(root)
