"""A watch over the user's checkout and settings, which asks git again only after changes.

An ending attempt and the next start share a look, which is taken in the background.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from weft import git, workspace
from weft.workspace import Fingerprint

_RECENT: Final = 1.0  # seconds


class Looks:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._aside = ThreadPoolExecutor(max_workers=1, thread_name_prefix="looks")
        self._last: tuple[float, Fingerprint] | None = None
        self._settings: tuple[Mapping[str, str], Mapping[str, str]] | None = None

    def settings(self, root: Path) -> Mapping[str, str]:
        """The configuration as git reads it, since the repository's own files last changed."""
        files = workspace.settings_files(root)
        with self._reading:
            if self._settings is None or self._settings[0] != files:
                self._settings = files, git.read_settings(root)
            return self._settings[1]

    def soon(self, root: Path) -> Future[Fingerprint]:
        """A look that begins no earlier than now, taken aside."""
        return self._aside.submit(self._since, root, time.monotonic())

    def recent(self, root: Path) -> Fingerprint:
        """As it was a moment ago, or is now."""
        return self._since(root, time.monotonic() - _RECENT)

    def _since(self, root: Path, moment: float) -> Fingerprint:
        """Return a look that began at this moment or later; callers share it."""
        with self._lock:
            if self._last is not None and self._last[0] >= moment:
                return self._last[1]
            began = time.monotonic()
            last = self._last[1] if self._last else None
            seen = workspace.fingerprint(root, settings=self.settings(root), last=last)
            self._last = began, seen
            return seen
