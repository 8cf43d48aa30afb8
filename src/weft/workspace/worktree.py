"""A workspace's files: made, renewed, reset and taken apart as a linked worktree of git.

This is all that knows how a working tree comes about; another way to get one (an overlay over a
shared lower tree, say) would be a second module with the same functions. Callers hold the
workspace's lock and see to its record.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from weft import paths
from weft.git import GitFailed, GitView
from weft.git.deletion import delete_tree
from weft.git.git_command import answer, has_died, run, tries, why_failed
from weft.git.refs import Update, find_checkouts, update_refs
from weft.git.repository import common_directory
from weft.git.trees import advance, put_up, remove_untracked, submodules
from weft.workspace import dependencies, inspection
from weft.workspace.workspace_records import Record, Slot, WorkspacePool, write_whole

# What of the user's configuration decides how files look; nothing here can start a program.
_CARRIED: Final = (
    *("core.autocrlf", "core.eol", "core.filemode", "core.symlinks", "core.ignorecase"),
    *("core.precomposeunicode", "core.protecthfs", "core.protectntfs", "core.excludesfile"),
    *("core.sparsecheckout", "core.sparsecheckoutcone", "extensions.objectformat"),
    *("extensions.worktreeconfig", "lfs.storage"),
)
_TRUE: Final = ("true", "yes", "on", "1", "")
_ADMIN: Final = ("HEAD", "commondir", "gitdir", "index", "reftable")


def carried(settings: Mapping[str, str]) -> dict[str, str]:
    return {key: settings[key] for key in _CARRIED if key in settings}


def is_sparse(settings: Mapping[str, str]) -> bool:
    return settings.get("core.sparsecheckout", "false").lower() in _TRUE


def is_recyclable(settings: Mapping[str, str]) -> bool:
    """Whether git keeps nothing else about a worktree that an agent could have changed.

    Sparse patterns and settings per worktree are git's to lay down: such a one is made anew.
    """
    own = settings.get("extensions.worktreeconfig", "false").lower() in _TRUE
    return not own and not is_sparse(settings)


def admin_directory(slot: Slot, record: Record) -> Path | None:
    """Where git keeps this worktree's HEAD and index; None if that is gone."""
    if record.admin is None:
        return None
    directory = slot.pool.common / "worktrees" / record.admin
    return directory if directory.is_dir() and not directory.is_symlink() else None


def is_present(slot: Slot) -> bool:
    return slot.tree.is_dir() and not slot.tree.is_symlink()


def find_checkout(repository: Path, ref: str) -> Path | None:
    """Return the working tree in which a person has a branch checked out. Workspaces do not
    count: agents may check out any branch there."""
    ours = WorkspacePool(common=common_directory(repository)).directory
    found = (one for one in find_checkouts(repository, ref) if not one.is_relative_to(ours))
    return next(found, None)


def lay_view(slot: Slot, settings: Mapping[str, str], source: Path, claims: Iterable[str]) -> None:
    """Write weft's own git directory, with the user's excludes; `source` is the user's git
    directory.

    A sparse checkout is widened by the claimed paths.
    """
    write_git_directory(slot.view, settings)
    info = slot.view / "info"
    for directory, name in (
        (slot.pool.common, "exclude"),
        (slot.pool.common, "attributes"),
        (source, "sparse-checkout"),
    ):
        (info / name).unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(directory / "info" / name, info / name)
    if is_sparse(settings):
        with (info / "sparse-checkout").open("a", encoding="utf-8") as file:
            file.write("\n" + "".join(f"{pattern}\n" for pattern in map(_widening, claims)))


def _widening(claim: str) -> str:
    """Return the sparse-checkout pattern that includes a claim, or the claim's directory."""
    parts = claim.split("/")
    plain = list(itertools.takewhile(paths.is_literal, parts))
    whole = "/".join(quote(part) for part in plain)
    return f"/{whole}" if len(plain) == len(parts) else f"/{whole}/" if plain else "/*"


def write_git_directory(directory: Path, settings: Mapping[str, str]) -> None:
    """Make a directory one that git takes for its own, without refs, objects or hooks."""
    (directory / "info").mkdir(parents=True, exist_ok=True)
    (directory / "refs").mkdir(exist_ok=True)
    format = settings.get("extensions.objectformat")
    version = f"1\n[extensions]\n\tobjectformat = {format}\n" if format else "0\n"
    write_whole(
        directory / "config", f"[core]\n\tbare = false\n\trepositoryformatversion = {version}"
    )
    write_whole(directory / "HEAD", "ref: refs/heads/none\n")


def make(slot: Slot, branch: str, commit: str, holds: Sequence[int]) -> str:
    """Make an empty worktree on a new branch; returns its name among git's worktrees.

    To be called while registering: git fails when several are made at once.
    """
    update_refs(slot.pool.common, [Update(ref=branch, old=None, new=commit)])
    if _has_plain_entries(slot.pool):
        return _make_entry(slot, branch)
    short = branch.removeprefix("refs/heads/")
    add = ("worktree", "add", "--quiet", "--no-checkout", str(slot.tree), short)
    for last in tries():
        done = run(slot.pool.common, *add, holds=holds, repeat=False)
        if last or not has_died(done):
            break
        take_apart(slot, None)
    if done.status != 0:
        raise GitFailed(f"git worktree failed: {why_failed(done)}.")
    text = (slot.tree / ".git").read_text(encoding="utf-8", errors="surrogateescape")
    return Path(text.removeprefix("gitdir: ").strip()).name


def _has_plain_entries(pool: WorkspacePool) -> bool:
    """Whether git keeps nothing about a worktree but three small files."""
    return (
        not (pool.common / "reftable").exists() and not (pool.common / "config.worktree").exists()
    )


def _make_entry(slot: Slot, branch: str) -> str:
    """All that `git worktree add --no-checkout` would write, without starting it."""
    entries = slot.pool.common / "worktrees"
    entries.mkdir(exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=slot.pool.trash_beside(entries / slot.tree.name)))
    _write_entry(fresh, slot, f"ref: {branch}\n")
    names = (f"{slot.tree.name}{number or ''}" for number in itertools.count())
    entry = next(entries / name for name in names if not os.path.lexists(entries / name))
    os.rename(fresh, entry)
    slot.tree.mkdir()
    write_whole(slot.tree / ".git", f"gitdir: {entry}\n")
    return entry.name


def _write_entry(entry: Path, slot: Slot, head: str | None = None) -> None:
    write_whole(entry / "commondir", "../..\n")
    write_whole(entry / "gitdir", f"{slot.tree / '.git'}\n")
    if head is not None:
        write_whole(entry / "HEAD", head)


def fill(slot: Slot, view: GitView, tree: str, *, admin: Path) -> None:
    """Check a tree out into an empty worktree."""
    _forget_index(slot)
    put_up(view, tree)
    _hand_over_index(slot, admin)


def renew(
    slot: Slot,
    view: GitView,
    old: str,
    new: str,
    *,
    admin: Path,
    branch: str,
    kept: Mapping[str, str],
) -> None:
    """Move a clean worktree from a tree to another, on a branch that exists.

    Directories in `kept` stay while the lock files beside them are unchanged.
    """
    _put_head(slot, admin, branch)
    (slot.directory / "index.lock").unlink(missing_ok=True)
    if old != new:
        try:
            advance(view, old, new)
        except GitFailed:  # the files differ from the index: a git died half-way, say
            put_up(view, new)
    still = dependencies.unchanged(kept, dependencies.lock_digests(slot.tree, kept))
    remove_untracked(view, [f"/{quote(name)}" for name in still])
    _hand_over_index(slot, admin)


def _put_head(slot: Slot, admin: Path, branch: str) -> None:
    if not _has_plain_entries(slot.pool):
        answer(slot.tree, "symbolic-ref", "HEAD", branch, variables={"GIT_DIR": str(admin)})
    else:  # all that git would do, without starting it
        write_whole(admin / "HEAD", f"ref: {branch}\n")


def reset(
    slot: Slot, record: Record, admin: Path, view: GitView, keep: Sequence[str] = ()
) -> dict[str, str]:
    """Make the working tree and its git entry as clean as new, whatever an agent left there.

    Directories in `keep` stay unless the lock files beside them changed. Return the directories
    that stayed, each with the digest of its lock files.
    """
    assert record.tree is not None
    assert record.base is not None
    inspection.refuse_mounts(slot.directory)
    (slot.directory / "index.lock").unlink(missing_ok=True)
    before = dependencies.lock_digests(slot.tree, keep)
    try:
        kept = _reset_files(slot, view, record.tree, before)
    except (GitFailed, PermissionError):
        _make_writable(slot.tree)
        kept = _reset_files(slot, view, record.tree, before)
    _reset_admin(slot, admin, record.base)
    # An agent's index may name missing objects, and `git gc` reads the index of every worktree.
    _hand_over_index(slot, admin)
    return kept


def _reset_files(slot: Slot, view: GitView, tree: str, before: Mapping[str, str]) -> dict[str, str]:
    put_up(view, tree)
    # git cleans neither inside a submodule nor what only looks like one.
    for path in submodules(view):
        if (view.tree / path).is_dir() and os.listdir(view.tree / path):
            discard(slot.pool, view.tree / path)
            (view.tree / path).mkdir()
    kept = dependencies.unchanged(before, dependencies.lock_digests(slot.tree, before))
    remove_untracked(view, [f"/{quote(name)}" for name in kept])
    return kept


def quote(name: str) -> str:
    """Return a path as a pattern that matches that path alone."""
    return "".join(f"\\{one}" if one in "\\*?[]! #" else one for one in name)


def _reset_admin(slot: Slot, admin: Path, commit: str) -> None:
    if slot.quarantine.exists():
        discard(slot.pool, slot.quarantine)
    for name in os.listdir(admin):
        if name not in _ADMIN:
            discard(slot.pool, admin / name)
    _write_entry(admin, slot)
    link = slot.tree / ".git"
    if link.is_dir() or link.is_symlink():
        discard(slot.pool, link)
    write_whole(link, f"gitdir: {admin}\n")
    # Detached, so that nobody is kept from checking that branch out.
    if _has_plain_entries(slot.pool):
        write_whole(admin / "HEAD", f"{commit}\n")
    else:
        detach = ("update-ref", "--no-deref", "HEAD", commit)
        answer(slot.tree, *detach, variables={"GIT_DIR": str(admin)})
    if (admin / "logs").exists():
        discard(slot.pool, admin / "logs")


def take_apart(slot: Slot, record: Record | None) -> None:
    """Remove the working tree and its git entry; the record stays."""
    inspection.refuse_mounts(slot.directory)
    admin = None if record is None else admin_directory(slot, record)
    if admin is not None:
        discard(slot.pool, admin)
    _forget_admin_of(slot)
    for place in (slot.tree, slot.quarantine):
        if os.path.lexists(place):
            discard(slot.pool, place)
    _forget_index(slot)


def _forget_admin_of(slot: Slot) -> None:
    """Remove the git entry of a making that ended before its name was written down."""
    entries = slot.pool.common / "worktrees"
    for entry in entries.glob(f"{slot.tree.name}*"):
        with contextlib.suppress(OSError):
            link = os.fsdecode(inspection.read_file(entry / "gitdir", 8192)).strip()
            if link == str(slot.tree / ".git"):
                discard(slot.pool, entry)


def discard(pool: WorkspacePool, path: Path) -> None:
    """Delete a file or directory, whatever its permissions; from outside it is gone at once."""
    while True:
        try:
            place = Path(tempfile.mkdtemp(dir=pool.trash_beside(path)))
            os.rename(path, place / "it")
            break
        except PermissionError:
            if not path.is_symlink():
                os.chmod(path, stat.S_IRWXU)  # a directory that is moved must be writable
            os.rename(path, place / "it")
            break
        except FileNotFoundError:
            if not os.path.lexists(path):
                return
            # Somebody emptied the trash in between.
    delete_tree(place)


def _make_writable(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        return
    os.chmod(path, stat.S_IRWXU)
    for entry in inspection.walk(path):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, stat.S_IRWXU)


def _forget_index(slot: Slot) -> None:
    for name in ("index", "index.lock", "taken", "taken.lock"):
        (slot.directory / name).unlink(missing_ok=True)


def _hand_over_index(slot: Slot, admin: Path) -> None:
    """Give the agent's git an index of its own; weft's stays where no agent's git writes."""
    (admin / "index.lock").unlink(missing_ok=True)
    fresh = admin / "index.handed"
    shutil.copy2(slot.index, fresh)  # with its time: see snapshot
    os.replace(fresh, admin / "index")
