"""The upkeep of the mirrors of a worker host: it bounds their disk space.

A mirror is tended while no worker uses it and no lease of the host is open. The upkeep deletes
trunks of ended runs, branches of ended attempts, archived work that home has or that is old, the
output of old attempts, and objects without a reference. If the mirrors together are above the
bound, it also deletes free workspaces and the output of all ended tasks, then other mirrors: those
that were not used for longest first.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

import anyio
from anyio.to_thread import run_sync

from weft import git, workspace
from weft.errors import NotFound, WeftError
from weft.git import Update
from weft.git.disk import delete_tree
from weft.git.mirror import collect_garbage, list_old_refs
from weft.maintenance import old_attempts
from weft.model import Task
from weft.project.mirror_use import last_use, taking_mirror
from weft.project.site import Site, home
from weft.store.leases import list_open
from weft.store.runs import list_runs
from weft.store.tasks import get_task
from weft.workspace.archive import drop_branches
from weft.workspace.names import ARCHIVE, BRANCHES, TRUNKS, trunk_ref
from weft.workspace.release import size
from weft.workspace.workspace_records import WorkspacePool

log = logging.getLogger(__name__)

MOST: Final = 20 << 30  # bytes of all mirrors of a host
_EVERY: Final = 3600.0  # seconds between two rounds
_FIRST: Final = 60.0  # seconds after the start of a worker
_OLD: Final = 14 * 86_400.0  # seconds after which output and archived work go
_NAME: Final = re.compile(r"([0-9]{1,18})\.[0-9]{1,9}")


async def upkeep_loop(site: Site, host: str) -> None:
    """Tend the mirrors of this host from time to time."""
    pause = _FIRST
    while True:
        await anyio.sleep(pause)
        pause = _EVERY
        try:
            await run_sync(tend_mirrors, site, host)
        except (WeftError, OSError) as error:
            log.warning("could not tend the mirrors of this host: %s", error)


def tend_mirrors(site: Site, host: str, most: int = MOST) -> bool:
    """Tend the mirror of a site and bound the space of all; return False if it is in use."""
    assert site.transport is not None
    with site.transport.use.alone() as free:
        if not free or any(lease.host == host for lease in list_open(site.store)):
            return False
        own = git.list_refs(site.common, BRANCHES, ARCHIVE)
        kept = site.transport.find_kept(frozenset(own.values()))
        _drop_trunks(site)
        _drop_work(site, kept)
        _remove_attempts(site, _OLD)
        collect_garbage(site.common)
        if _total(site.common.parent) > most:
            workspace.clean(site.root, terms=site.terms(), landed=kept)
            _remove_attempts(site, 0.0)
            collect_garbage(site.common)
    _delete_unused(site.common, most)
    return True


def _drop_trunks(site: Site) -> None:
    """Delete the trunks of runs that have ended."""
    running = tuple(trunk_ref(run.id) for run in list_runs(site.store) if run.state != "ended")
    ended = {
        ref: commit
        for ref, commit in git.list_refs(site.common, TRUNKS).items()
        if not ref.startswith(running)
    }
    _delete_refs(site.common, ended)


def _drop_work(site: Site, kept: Collection[str]) -> None:
    """Delete branches of ended attempts, and archived work that home has or that is old."""
    handed_out = {branch for _, branch in workspace.list_handed_out(site.root)}
    branches = {
        ref: commit
        for ref, commit in git.list_refs(site.common, BRANCHES).items()
        if ref not in handed_out
    }
    if branches:
        drop_branches(site.common, branches, landed=kept)
    old = list_old_refs(site.common, ARCHIVE, before=time.time() - _OLD)
    archived = git.list_refs(site.common, ARCHIVE)
    _delete_refs(
        site.common,
        {ref: commit for ref, commit in archived.items() if commit in kept or ref in old},
    )


def _delete_refs(common: Path, refs: dict[str, str]) -> None:
    if refs:
        updates = [Update(ref=ref, old=commit, new=None) for ref, commit in refs.items()]
        git.update_refs(common, updates, why="weft: collected")


def _remove_attempts(site: Site, older_than: float) -> None:
    """Delete the records and the output of attempts whose tasks ended some time ago."""
    place = home(site.common, site.identity)
    names = [path.name for path in place.iterdir()] if place.is_dir() else []
    numbers = {int(match[1]) for name in names if (match := _NAME.fullmatch(name))}
    tasks = [task for number in sorted(numbers) if (task := _find_task(site, number)) is not None]
    old, _ = old_attempts.look(site.common, site.store, tasks, older_than)
    for directory, why in old_attempts.remove(old).items():
        log.warning("the directory %s stays: %s", directory.path, why)


def _find_task(site: Site, number: int) -> Task | None:
    try:
        return get_task(site.store, number)
    except NotFound:
        return None


def _delete_unused(own: Path, most: int) -> None:
    """Delete other mirrors, those that were not used for longest first, down to the bound."""
    mirrors = [path for path in own.parent.glob("*.git") if path != own and path.is_dir()]
    for mirror in sorted(mirrors, key=last_use):
        if _total(own.parent) <= most:
            return
        with taking_mirror(mirror) as free:
            if free and not _has_work(mirror):
                workspace.clean(mirror)  # its working trees lie elsewhere
                delete_tree(mirror)


def _total(mirrors: Path) -> int:
    """Return the bytes of all mirrors with the working trees of their workspaces."""
    roots = [root for path in mirrors.glob("*.git") for root in WorkspacePool(common=path).roots()]
    return sum(map(size, (mirrors, *roots)))


def _has_work(mirror: Path) -> bool:
    """Tell whether a mirror has workspaces whose agents may still run."""
    return bool(workspace.list_handed_out(mirror))
