"""Where a command works: the repository, its configuration and its store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from msgspec import Struct

from weft import config, git
from weft.config import Config
from weft.store import Store, default_url, open_store


class Project(Struct, frozen=True, kw_only=True):
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
    root, common = git.locate(directory)
    settings = config.load(root, environment)
    url = settings.store or default_url(common)
    if url.startswith("sqlite:///") and not url.startswith("sqlite:////"):
        # One store for the repository, from whichever directory it is used.
        url = "sqlite:///" + quote(str(root / unquote(url.removeprefix("sqlite:///"))))
    return Project(root=root, config=settings, environment=environment, store_url=url)
