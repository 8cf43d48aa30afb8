"""Looks at the user's checkout and settings: git is asked again only about what may have changed.

One look is enough for an attempt that ends and the next that starts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from weft import git, workspace
from weft.workspace import Fingerprint

_RECENT: Final = 1.0  # seconds


class Looks:
    def __init__(self) -> None:
        self._last: tuple[float, Fingerprint] | None = None
        self._settings: tuple[Mapping[str, str], Mapping[str, str]] | None = None

    def settings(self, root: Path) -> Mapping[str, str]:
        """The configuration as git reads it, since the repository's own files last changed."""
        files = workspace.settings_files(root)
        if self._settings is None or self._settings[0] != files:
            self._settings = files, git.settings(root)
        return self._settings[1]

    def now(self, root: Path) -> Fingerprint:
        began = time.monotonic()
        last = self._last[1] if self._last else None
        seen = workspace.fingerprint(root, settings=self.settings(root), last=last)
        self._last = began, seen
        return seen

    def recent(self, root: Path) -> Fingerprint:
        """As it was a moment ago, or is now."""
        if self._last is not None and time.monotonic() - self._last[0] < _RECENT:
            return self._last[1]
        return self.now(root)
