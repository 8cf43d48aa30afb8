"""This machine as a worker host beside the store itself, with a git remote that home publishes on.

Such a host is trusted: it has the database. Without a server it reads settings and agent files from
the commit that is checked out at home.
"""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from msgspec import convert
from msgspec.structs import replace

from weft import config
from weft.config import RunSettings, Tuning
from weft.errors import InputError
from weft.git.mirror import require_push
from weft.git.past_commits import list_tree, read_blobs
from weft.git.shared_remote import SharedRemote, list_homes
from weft.project.project import Project
from weft.project.site import AGENTS
from weft.project.worker_host import HostCredentials, HostFiles, MirrorTransport
from weft.store import Store
from weft.store.repositories import list_repositories
from weft.store.workers import find_times

_HEAD: Final = "HEAD"


def get_host_project(directory: Path, environment: Mapping[str, str]) -> Project:
    """Return a project without a repository, on the store that the environment names.

    Its times are those of the store: the settings of home are not here.
    """
    url = environment.get("WEFT_STORE", "")
    if not url.startswith(("postgresql://", "postgres://")):
        raise InputError(
            "--remote is for hosts that share a PostgreSQL store: name it with --store "
            "postgresql://… or WEFT_STORE."
        )
    settings = config.parse("", environment)
    project = Project(root=directory, config=settings, environment=environment, store_url=url)
    with project.open_store() as store:
        times = find_times(store)
    return replace(project, config=replace(settings, tuning=convert(times, Tuning)))


def settle_on_host(store: Store, url: str, files: HostFiles) -> HostCredentials:
    """Return the name of this host and the repository of the store that is on the remote."""
    files.mirrors.mkdir(parents=True, exist_ok=True, mode=0o700)
    published = list_homes(files.mirrors, url)
    known = {repository.id for repository in list_repositories(store)}
    ids = sorted(known.intersection(published))
    shown = SharedRemote(url=url, repository="").shown
    if not ids:
        raise InputError(
            f"{shown} has no repository of this store (there: {_listed(published)}; in the store: "
            f"{_listed(known)}). At home, name this remote as `remote` under [store] in weft.toml "
            "and start a worker; `weft doctor` there shows the id."
        )
    if len(ids) > 1:
        raise InputError(f"{shown} has {len(ids)} repositories of this store; give each its own.")
    before = files.find()
    if before is not None and before.repository == ids[0]:
        return before
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:50].lstrip("_.-") or "host"
    named = HostCredentials(host=f"{name}-{secrets.token_hex(4)}", repository=ids[0], secret="")
    files.keep(named)
    return named


def _listed(ids: Collection[str]) -> str:
    return ", ".join(sorted(ids)) or "none"


def open_store_transport(
    known: HostCredentials, url: str, files: HostFiles, environment: Mapping[str, str]
) -> MirrorTransport:
    """Open the mirror of a repository on a shared remote.

    Raise unless this host can fetch from the remote and push to it: it would find that out only
    after the work of its first task.
    """
    mirror = files.mirrors / f"{known.repository}.git"
    remote = SharedRemote(url=url, repository=known.repository)
    transport = MirrorTransport(mirror, remote, lambda: _read_settings(mirror, environment))
    transport.fetch(None, ())
    require_push(mirror, remote, known.host)
    return transport


def _read_settings(mirror: Path, environment: Mapping[str, str]) -> RunSettings:
    """Read the settings and agent files of the commit that home has checked out."""
    names = list_tree(mirror, _HEAD)
    files = [name for name in names if re.fullmatch(rf"{re.escape(AGENTS)}/[^/]+\.md", name)]
    texts = read_blobs(mirror, _HEAD, [*files, *({config.FILE} & set(names))])
    settings = config.parse(texts.pop(config.FILE, ""), environment)
    agents = {Path(name).stem: text for name, text in texts.items()}
    return RunSettings(gate=settings.gate, workspace=settings.workspace, agents=agents)
