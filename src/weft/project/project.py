"""Where a command works: the repository, its configuration and its store.

Every command begins here, so what most of them can do without is not imported.
With a server all of that is elsewhere, and needs no repository here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from msgspec import Struct

from weft import config
from weft.config import Config
from weft.errors import InputError, WeftError
from weft.project.server_address import SERVER, find_server, token_file
from weft.redaction import Redactor, known
from weft.store import Store, default_url, open_store

if TYPE_CHECKING:
    from weft.store.server_client import Server

_USUAL: Final = ("repositoryformatversion = 0", "bare = false")
_UNUSUAL: Final = ("worktree", "extensions", "bare = true")
"""What a configuration says where the root and the git directory are where they seem to be."""


class Project(Struct, frozen=True, kw_only=True):
    """What belongs to one repository, as one process uses it."""

    root: Path
    config: Config
    environment: Mapping[str, str]  # the user's
    store_url: str
    server: Server | None = None  # who has the repository and the store; None: they are here

    def open_store(self) -> Store:
        if self.server is not None:
            from weft.store.remote_store import RemoteStore  # late: nothing else speaks HTTP

            return RemoteStore(self.server)
        return open_store(
            self.store_url,
            tuning=self.config.tuning,
            limits=self.config.limits,
            redactor=Redactor(known(self.environment, self.config.gate.env)),
        )

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
    """The project a directory belongs to, or the one that the server has."""
    return find_elsewhere(directory, environment) or _here(directory, environment)


def find_here(directory: Path, environment: Mapping[str, str]) -> Project:
    """The project of a process that works on the store and the repository themselves."""
    if environment.get(SERVER):
        raise InputError(
            f"This works on the store itself: leave out --server and {SERVER}, and name the store "
            "with WEFT_STORE if it is not the repository's own."
        )
    return _here(directory, environment)


def find_elsewhere(directory: Path, environment: Mapping[str, str]) -> Project | None:
    """The project that a server has; None if no server was named."""

    def own_token() -> Path | None:
        try:
            here = _here(directory, environment)
        except WeftError:  # no repository
            url = environment.get("WEFT_STORE", "")
            return token_file(None, url, environment) if url else None
        return token_file(here.store_file, here.store_url, environment)

    server = find_server(environment, own_token)
    if server is None:
        return None
    root = _around(directory)
    return Project(
        root=root,
        config=config.load(root, environment),
        environment=environment,
        store_url=server.url,
        server=server,
    )


def _around(directory: Path) -> Path:
    """The checkout around a directory, whose configuration counts here, or the directory itself."""
    inside = directory.resolve()
    return next((one for one in (inside, *inside.parents) if (one / ".git").exists()), inside)


def _here(directory: Path, environment: Mapping[str, str]) -> Project:
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

    return git.get_directories(directory)
