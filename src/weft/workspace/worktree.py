"""The files of a workspace: a linked worktree of git that is made, renewed, reset and removed.

Another kind of working tree (an overlay over a shared lower tree, say) would be a second module
with the same functions. Callers hold the workspace's lock and write its record.
"""

from __future__ import annotations

import contextlib
import hashlib
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
from weft.git.disk import delete_tree, write_whole
from weft.git.git_command import (
    check_output,
    failure_reason,
    has_died,
    run,
    tries,
    write_git_directory,
)
from weft.git.refs import Update, find_checkouts, list_working_trees, update_refs
from weft.git.repository import git_directory
from weft.git.trees import check_out, list_submodules, remove_untracked, switch_tree
from weft.workspace import inspection
from weft.workspace.inspection import read_file
from weft.workspace.workspace_records import Record, Slot, WorkspacePool

# Settings of the user that decide the content of files; none can start a program.
_CHECKOUT_SETTINGS: Final = (
    *("core.autocrlf", "core.eol", "core.filemode", "core.symlinks", "core.ignorecase"),
    *("core.precomposeunicode", "core.protecthfs", "core.protectntfs", "core.excludesfile"),
    *("core.sparsecheckout", "core.sparsecheckoutcone", "extensions.objectformat"),
    *("extensions.worktreeconfig", "lfs.storage"),
)
_TRUE: Final = ("true", "yes", "on", "1", "")
_ADMIN: Final = ("HEAD", "commondir", "gitdir", "index", "reftable")
_LOCKS: Final = (
    *("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock"),
    *("bun.lockb", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "requirements.txt"),
    *("Cargo.lock", "go.sum", "Gemfile.lock", "composer.lock", "mix.lock", "package.json"),
    *("pyproject.toml", "deno.lock", "gradle.lockfile"),
)
_LARGEST: Final = 64 << 20  # bytes of a lock file


def checkout_settings(settings: Mapping[str, str]) -> dict[str, str]:
    return {key: settings[key] for key in _CHECKOUT_SETTINGS if key in settings}


def is_sparse(settings: Mapping[str, str]) -> bool:
    return settings.get("core.sparsecheckout", "false").lower() in _TRUE


def is_recyclable(settings: Mapping[str, str]) -> bool:
    """Tell whether weft can renew all that git keeps about a worktree: a worktree with sparse
    patterns or its own settings is made anew."""
    own = settings.get("extensions.worktreeconfig", "false").lower() in _TRUE
    return not own and not is_sparse(settings)


def admin_directory(slot: Slot, record: Record) -> Path | None:
    """Return git's directory of this worktree's HEAD and index; None if it is gone."""
    if record.admin is None:
        return None
    directory = slot.pool.common / "worktrees" / record.admin
    return directory if directory.is_dir() and not directory.is_symlink() else None


def is_present(slot: Slot) -> bool:
    return slot.tree.is_dir() and not slot.tree.is_symlink()


def find_checkout(repository: Path, ref: str) -> Path | None:
    return next(iter(list_checkouts(repository, ref)), None)


def list_checkouts(repository: Path, ref: str) -> list[Path]:
    """List the working trees in which a person has a branch checked out. Workspaces do not
    count: agents may check out any branch there."""
    return [path for path in find_checkouts(repository, ref) if not _is_ours(repository, path)]


def _is_ours(repository: Path, tree: Path) -> bool:
    pool = WorkspacePool.of(repository)
    return tree.is_relative_to(pool.directory) or any(
        tree in (slot.tree, Path(record.place)) for slot, record in pool.registered()
    )


def find_rebase(repository: Path, ref: str) -> Path | None:
    """Return the working tree in which a person rebases a branch; git counts it as detached."""
    for path in list_working_trees(repository):
        if not path.is_dir() or _is_ours(repository, path):
            continue
        directory = git_directory(path)
        for name in ("rebase-merge", "rebase-apply"):
            with contextlib.suppress(FileNotFoundError):
                if (directory / name / "head-name").read_text().strip() == ref:
                    return path
    return None


def write_view(
    slot: Slot, settings: Mapping[str, str], source: Path, claims: Iterable[str]
) -> None:
    """Write weft's own git directory, with the excludes of the user's git directory `source`.

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
    whole = "/".join(map(quote_pattern, plain))
    return f"/{whole}" if len(plain) == len(parts) else f"/{whole}/" if plain else "/*"


def make(slot: Slot, branch: str, commit: str, holds: Sequence[int]) -> str:
    """Make an empty worktree at a commit, and its branch; return its name among git's worktrees.

    Call it while registering: git fails when several are made at once.
    """
    update_refs(slot.pool.common, [Update(ref=branch, old=None, new=commit)])
    if _has_plain_entries(slot.pool):
        return _make_entry(slot, commit)
    add = ("worktree", "add", "--quiet", "--no-checkout", "--detach", str(slot.tree), commit)
    for last in tries():
        done = run(slot.pool.common, *add, holds=holds, repeat=False)
        if last or not has_died(done):
            break
        remove_files(slot, None)
    if done.status != 0:
        raise GitFailed(f"git worktree failed: {failure_reason(done)}.")
    text = (slot.tree / ".git").read_text(encoding="utf-8", errors="surrogateescape")
    return Path(text.removeprefix("gitdir: ").strip()).name


def _has_plain_entries(pool: WorkspacePool) -> bool:
    """Tell whether git keeps only three small files about a worktree."""
    return (
        not (pool.common / "reftable").exists() and not (pool.common / "config.worktree").exists()
    )


def _make_entry(slot: Slot, commit: str) -> str:
    """Write the files of `git worktree add --no-checkout`, without starting git."""
    entries = slot.pool.common / "worktrees"
    entries.mkdir(exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=slot.pool.trash_beside(entries / slot.tree.name)))
    _write_entry(fresh, slot, f"{commit}\n")
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
    _remove_index(slot)
    check_out(view, tree)
    _hand_over_index(slot, admin)


def renew(
    slot: Slot,
    view: GitView,
    old: str,
    new: str,
    *,
    admin: Path,
    commit: str,
    kept: Mapping[str, str],
) -> None:
    """Move a clean worktree from a tree to that of a commit.

    Directories in `kept` stay while the lock files beside them are unchanged.
    """
    _detach(slot, admin, commit)
    (slot.directory / "index.lock").unlink(missing_ok=True)
    if old != new:
        try:
            switch_tree(view, old, new)
        except GitFailed:  # the files differ from the index, for example after a git died
            check_out(view, new)
    still = unchanged(kept, lock_digests(slot.tree, kept))
    remove_untracked(view, [f"/{quote_pattern(name)}" for name in still])
    _hand_over_index(slot, admin)


def _detach(slot: Slot, admin: Path, commit: str) -> None:
    """Set HEAD to a commit: no branch is checked out in a workspace."""
    if _has_plain_entries(slot.pool):  # writes the file as git would, without starting it
        write_whole(admin / "HEAD", f"{commit}\n")
    else:
        detach = ("update-ref", "--no-deref", "HEAD", commit)
        check_output(slot.tree, *detach, variables={"GIT_DIR": str(admin)})


def reset(
    slot: Slot, record: Record, admin: Path, view: GitView, keep: Sequence[str] = ()
) -> dict[str, str]:
    """Make the working tree and its git entry as clean as new.

    Directories in `keep` stay unless the lock files beside them changed. Return the directories
    that stayed, each with the digest of its lock files.
    """
    assert record.tree is not None
    assert record.base is not None
    inspection.refuse_mounts(slot)
    (slot.directory / "index.lock").unlink(missing_ok=True)
    before = lock_digests(slot.tree, keep)
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
    check_out(view, tree)
    # git cleans neither a submodule nor a directory that looks like a submodule.
    for path in list_submodules(view):
        if (view.tree / path).is_dir() and os.listdir(view.tree / path):
            discard(slot.pool, view.tree / path)
            (view.tree / path).mkdir()
    kept = unchanged(before, lock_digests(slot.tree, before))
    remove_untracked(view, [f"/{quote_pattern(name)}" for name in kept])
    return kept


def quote_pattern(name: str) -> str:
    """Return a path as a pattern that matches that path alone."""
    return "".join(f"\\{char}" if char in "\\*?[]! #" else char for char in name)


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
    _detach(slot, admin, commit)
    if (admin / "logs").exists():
        discard(slot.pool, admin / "logs")


def remove_files(slot: Slot, record: Record | None) -> None:
    """Remove the working tree and its git entry; the record stays."""
    inspection.refuse_mounts(slot)
    admin = None if record is None else admin_directory(slot, record)
    if admin is not None:
        discard(slot.pool, admin)
    _remove_unrecorded_entry(slot)
    for place in (slot.tree, slot.quarantine):
        if os.path.lexists(place):
            discard(slot.pool, place)
    _remove_index(slot)


def _remove_unrecorded_entry(slot: Slot) -> None:
    """Remove the git entry of a worktree whose maker died before it recorded the name."""
    entries = slot.pool.common / "worktrees"
    for entry in entries.glob(f"{slot.tree.name}*"):
        with contextlib.suppress(OSError):
            link = os.fsdecode(inspection.read_file(entry / "gitdir", 8192)).strip()
            if link == str(slot.tree / ".git"):
                discard(slot.pool, entry)


def discard(pool: WorkspacePool, path: Path) -> None:
    """Delete a file or directory with any permissions; it disappears at once."""
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
            # Another process emptied the trash in between.
    delete_tree(place)


def _make_writable(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        return
    os.chmod(path, stat.S_IRWXU)
    for entry in inspection.walk(path):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, stat.S_IRWXU)


def _remove_index(slot: Slot) -> None:
    for name in ("index", "index.lock", "taken", "taken.lock"):
        (slot.directory / name).unlink(missing_ok=True)


def _hand_over_index(slot: Slot, admin: Path) -> None:
    """Give the agent's git a copy of weft's index, which no agent's git writes."""
    (admin / "index.lock").unlink(missing_ok=True)
    fresh = admin / "index.handed"
    shutil.copy2(slot.index, fresh)  # with its time: see snapshot
    os.replace(fresh, admin / "index")


def lock_digests(tree: Path, names: Iterable[str]) -> dict[str, str]:
    """Return a digest of the lock files beside each of these directories that exists.

    Directories of dependencies stay in a workspace while these digests do. An agent can change
    their content, so checks never get them: a check starts with the result of its own set-up.
    """
    return {
        name: _digest((tree / name).parent)
        for name in names
        if (tree / name).is_dir() and not _leads_away(tree, name)
    }


def unchanged(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in after.items() if before.get(name) == digest}


def _leads_away(tree: Path, name: str) -> bool:
    """Tell whether a directory, or a directory above it, is a link."""
    return os.path.realpath(tree / name) != os.path.join(os.path.realpath(tree), name)


def _digest(directory: Path) -> str:
    digest = hashlib.sha256()
    for name in _LOCKS:
        content = read_file(directory / name, _LARGEST)
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
