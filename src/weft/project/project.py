"""The project of a command: the repository, its configuration and its store.

Every command starts here, so this module imports little. With a server, the project is on the
server's machine and needs no local repository.
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
from weft.project.server_address import (
    SERVER,
    address_file,
    find_server,
    read_addresses,
    token_file,
)
from weft.redaction import Redactor, list_secrets
from weft.store import Store, default_url, open_store

if TYPE_CHECKING:
    from weft.store.server_client import Server

_USUAL: Final = ("repositoryformatversion = 0", "bare = false")
_UNUSUAL: Final = ("worktree", "extensions", "bare = true")
"""The settings of git that move the root or the git directory."""


class Project(Struct, frozen=True, kw_only=True):
    """A repository with its configuration and store, as a process uses it."""

    root: Path
    config: Config
    environment: Mapping[str, str]  # the user's
    store_url: str
    server: Server | None = None  # the server that has the repository and the store; None: local

    def open_store(self) -> Store:
        if self.server is not None:
            from weft.store.remote_store import (
                RemoteStore,
            )  # late import: most commands need no HTTP

            return RemoteStore(self.server)
        store = open_store(
            self.store_url,
            listen_url=self.config.listen_url,
            tuning=self.config.tuning,
            limits=self.config.limits,
            redactor=Redactor(list_secrets(self.environment, self.config.gate.env)),
        )
        store.find_server = self._find_server
        return store

    def _find_server(self) -> str:
        """Return the address by which other machines reach the latest server of this store."""
        addresses = read_addresses(address_file(self.store_file, self.store_url, self.environment))
        return addresses[-1] if addresses else ""

    @property
    def has_store(self) -> bool:
        """True if the store exists; the first command that needs a store makes its file."""
        file = self.store_file
        return file is None or (file.is_file() and file.stat().st_size > 0)

    @property
    def store_file(self) -> Path | None:
        """The file of an SQLite store."""
        if not self.store_url.startswith("sqlite:///"):
            return None
        return Path(unquote(self.store_url.removeprefix("sqlite:///")))


def get_project(directory: Path, environment: Mapping[str, str]) -> Project:
    """Return the project of a directory, or the server's project."""
    return find_server_project(directory, environment) or _here(directory, environment)


def get_local_project(directory: Path, environment: Mapping[str, str]) -> Project:
    """Return the project of a directory; refuse a server."""
    if environment.get(SERVER):
        raise InputError(
            f"This works on the store itself: leave out --server and {SERVER}, and name the store "
            "with WEFT_STORE if it is not the repository's own."
        )
    return _here(directory, environment)


def find_server_project(directory: Path, environment: Mapping[str, str]) -> Project | None:
    """Return the project of a server; None if no server was named."""

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
    """Return the checkout around a directory, whose configuration counts, or the directory."""
    inside = directory.resolve()
    return next(
        (directory for directory in (inside, *inside.parents) if (directory / ".git").exists()),
        inside,
    )


def _drop_index_lock(common: Path) -> None:
    """Remove git's lock of the index if a killed `weft land` left it."""
    if (common / "weft-land.lock").exists():
        from weft.workspace.locks import drop_index_lock  # late: hardly ever needed, and slow

        drop_index_lock(common)


def _here(directory: Path, environment: Mapping[str, str]) -> Project:
    root, common = _find_plain_repository(directory) or _ask_git(directory)
    _drop_index_lock(common)
    settings = config.load(root, environment)
    url = settings.store or default_url(common)
    if url.startswith("sqlite:///") and not url.startswith("sqlite:////"):
        # All directories of a repository share a store.
        url = "sqlite:///" + quote(str(root / unquote(url.removeprefix("sqlite:///"))))
    return Project(root=root, config=settings, environment=environment, store_url=url)


def _find_plain_repository(directory: Path) -> tuple[Path, Path] | None:
    """Find the root of a repository in the layout of `git init`; return None if only git can tell.

    Starting git takes longer than the rest of a short command.
    """
    root = directory.resolve()
    common = root / ".git"
    try:
        settings = " ".join((common / "config").read_text(encoding="utf-8").lower().split())
        plain = (
            all(settings.count(setting) == 1 for setting in _USUAL)
            and not any(setting in settings for setting in _UNUSUAL)
            and (common / "HEAD").read_text(encoding="utf-8").startswith("ref: refs/")
            and not (common / "commondir").exists()
            and all(map(_is_own_directory, (root, common, common / "objects", common / "refs")))
        )
    except (OSError, ValueError):
        return None
    return (root, common) if plain else None


def _is_own_directory(path: Path) -> bool:
    """Tell whether git would trust a directory: no link, and owned by this user."""
    status = path.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _ask_git(directory: Path) -> tuple[Path, Path]:
    from weft import git

    return git.get_directories(directory)
