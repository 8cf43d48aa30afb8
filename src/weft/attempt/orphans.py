"""Orphans: attempts, leases and workspaces that dead workers left."""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path

from weft import workspace
from weft.errors import InUse, WeftError
from weft.model import Lease, LeaseState, Worker
from weft.process import attempt_files
from weft.process.death_proof import end_unstarted, is_proved_dead
from weft.process.process_identity import ProcessPlace, get_place
from weft.project.site import Site
from weft.store.leases import list_open
from weft.store.repositories import find_repository
from weft.store.tasks import get_task
from weft.store.workers import find_workers

log = logging.getLogger(__name__)


def find_orphans(site: Site, here: ProcessPlace) -> list[Lease]:
    """List the attempts of dead workers of this host that can be adopted."""
    suspects = [lease for lease in list_open(site.store) if lease.state is LeaseState.SUSPECT]
    known = {lease.worker for lease in suspects if lease.worker is not None}
    holders = find_workers(site.store, known, now=time.time()) if known else {}
    return [
        lease
        for lease in suspects
        if _is_gone(holder := holders.get(lease.worker or ""))
        and holder is not None
        and (holder.host, holder.boot) == (here.host, here.boot)
        and was_started(site, lease)
    ]


def was_started(site: Site, lease: Lease) -> bool:
    """Tell whether the agent of an attempt of this repository may have started."""
    return lease.task is not None and _has_begun(site.directory(lease.task, lease.attempt or 0))


def prove_dead(site: Site, lease: Lease) -> str | None:
    """Return the proof of death for a lease of this host; None if it lives or can be adopted."""
    holder = find_workers(site.store, [lease.worker or ""], now=time.time()).get(lease.worker or "")
    gone = _is_gone(holder)
    if lease.task is None or lease.attempt is None:
        return "its process is gone" if gone else None
    directory = _directory(site, lease.task, lease.attempt)
    if gone and _has_begun(directory):
        return None
    marker = site.marker(lease.task, lease.attempt)
    if gone and directory.exists():
        end_unstarted(directory, marker)  # a set-up command that lost its weft
    return "no process of it is left" if is_proved_dead(directory, marker) else None


class Staying:
    """Workspaces that could not be freed; each reason is logged once."""

    def __init__(self) -> None:
        self.for_good: set[str] = set()  # branches of workspaces with work that exists nowhere else
        self._logged: set[tuple[str, str]] = set()

    def tell(self, branch: str, why: str) -> None:
        if (branch, why) not in self._logged:
            self._logged.add((branch, why))
            log.warning("the workspace of %s stays: %s", branch, why)


def free_workspaces(site: Site, staying: Staying) -> None:
    """Free the workspaces of ended attempts and checks, and the directories of such checks.

    Workspaces are listed before leases: a lease exists before its workspace, and an ended lease
    does not come back.
    """
    handed = dict(workspace.list_handed_out(site.root))
    prefix = site.marker_prefix
    mine = {owner: branch for owner, branch in handed.items() if owner.startswith(prefix)}
    for branch in workspace.find_copied(site.root):
        if branch not in staying.for_good:
            _free(site, branch, staying)
    checks = site.list_checks()
    if not mine and not checks:
        return
    leases = list_open(site.store)
    going_on = {
        site.marker(lease.task, lease.attempt)
        for lease in leases
        if lease.task is not None and lease.attempt is not None
    }
    going_on |= {site.check_marker(lease.fence) for lease in leases if lease.kind == "check"}
    for owner, branch in mine.items():
        if owner in going_on or branch in staying.for_good:
            continue
        kind, _, _ = owner.removeprefix(prefix).partition(".")
        if kind == "check":
            _discard_check(site, branch, staying)
        else:
            task = get_task(site.store, int(kind))
            _free(site.for_run(task.run), branch, staying)
    for fence in checks.difference(lease.fence for lease in leases):
        shutil.rmtree(site.check_directory(fence), ignore_errors=True)


def _free(site: Site, branch: str, staying: Staying) -> None:
    try:
        obstacle = workspace.release(
            workspace.attach(site.root, branch, terms=site.terms())
        ).obstacle
    except InUse:
        return  # the process that ended it is about to free it
    except (WeftError, OSError) as error:  # a full disk, for example: the next sweep tries again
        if branch in dict(workspace.list_handed_out(site.root)).values():
            staying.tell(branch, str(error))
        return
    if obstacle is not None:
        staying.for_good.add(branch)
        staying.tell(branch, obstacle)


def _discard_check(site: Site, branch: str, staying: Staying) -> None:
    try:
        workspace.discard_abandoned(site.root, branch)
    except InUse:
        return
    except (WeftError, OSError) as error:
        staying.tell(branch, str(error))


def _is_gone(holder: Worker | None) -> bool:
    return holder is not None and holder.left is not None


def _has_begun(directory: Path) -> bool:
    return (directory / attempt_files.WRAPPER).exists()


def _directory(site: Site, task: int, attempt: int) -> Path:
    """Return the directory of an attempt, which may be in another repository of this machine."""
    repo = get_task(site.store, task).repo
    known = None if repo == site.repository else find_repository(site.store, repo)
    if known is not None and known.host == get_place().host:
        return site.directory_in(Path(known.path), task, attempt)
    return site.directory(task, attempt)
