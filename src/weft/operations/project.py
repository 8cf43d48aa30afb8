"""Where a command works: the repository, its configuration and its store.

Every command begins here, so what most of them can do without is not imported.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from msgspec import Struct

from weft import config
from weft.config import Config
from weft.store import Store, default_url, open_store

_USUAL: Final = ("repositoryformatversion = 0", "bare = false")
_UNUSUAL: Final = ("worktree", "extensions", "bare = true")
"""What a configuration says where the root and the git directory are where they seem to be."""


class Project(Struct, frozen=True, kw_only=True):
    """What belongs to one repository, as one process uses it."""

    root: Path
    config: Config
    environment: Mapping[str, str]  # the user's
    store_url: str

    def open_store(self) -> Store:
        return open_store(self.store_url, tuning=self.config.tuning, limits=self.config.limits)

    @property
    def has_store(self) -> bool:
        """Whether there is a store to ask; a file is made by the first command that needs it."""
        file = self.store_file
        return file is None or (file.is_file() and file.stat().st_size > 0)

    @property
    def store_file(self) -> Path | None:
        """The file of an SQLite store."""
        if not self.store_url.startswith("sqlite:///"):
            return None
        return Path(unquote(self.store_url.removeprefix("sqlite:///")))


def find(directory: Path, environment: Mapping[str, str]) -> Project:
    """The project a directory belongs to."""
    root, common = _find_plain_repository(directory) or _ask_git(directory)
    settings = config.load(root, environment)
    url = settings.store or default_url(common)
    if url.startswith("sqlite:///") and not url.startswith("sqlite:////"):
        # One store for the repository, from whichever directory it is used.
        url = "sqlite:///" + quote(str(root / unquote(url.removeprefix("sqlite:///"))))
    return Project(root=root, config=settings, environment=environment, store_url=url)


def _find_plain_repository(directory: Path) -> tuple[Path, Path] | None:
    """What git would say of a root that is as `git init` leaves it; None: only git can tell.

    Asking git takes longer than all the rest that a short command does.
    """
    root = directory.resolve()
    common = root / ".git"
    try:
        settings = " ".join((common / "config").read_text(encoding="utf-8").lower().split())
        plain = (
            all(settings.count(one) == 1 for one in _USUAL)
            and not any(one in settings for one in _UNUSUAL)
            and (common / "HEAD").read_text(encoding="utf-8").startswith("ref: refs/")
            and not (common / "commondir").exists()
            and all(map(_is_own_directory, (root, common, common / "objects", common / "refs")))
        )
    except (OSError, ValueError):
        return None
    return (root, common) if plain else None


def _is_own_directory(path: Path) -> bool:
    """Not a link, and not another user's, whom git would not trust."""
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _ask_git(directory: Path) -> tuple[Path, Path]:
    from weft import git

    return git.locate(directory)
