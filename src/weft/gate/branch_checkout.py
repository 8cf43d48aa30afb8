"""The user's checkout of a branch that `weft land` moves: inspected before, moved after the branch.

The files follow behind a recorded intent, with a copy of the index. weft holds git's own lock of
the index for the instants of the copy and of the swap alone; if another git changed the index
between them, the move is done again. Any weft command removes a lock that a killed weft left.
A file that is neither as before nor as weft writes it belongs to the user, and is left alone.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from weft import git
from weft.errors import Refused
from weft.gate.trunk import CrashPoint
from weft.git import ChangeKind, FileChange
from weft.git.git_command import LONG, check_output, failure_reason, join_nul, run, split_nul
from weft.git.trees import SUBMODULE
from weft.workspace.locks import INDEX_LOCK, OWN_LOCK
from weft.workspace.worktree import find_rebase, list_checkouts

_NAMED: Final = 10  # files that a refusal names
_TRIES: Final = 5  # if other gits change the index during a move
_PAUSES: Final = (0.05, 0.2, 0.5, 1.0)  # seconds; another git seldom locks the index for longer
_UNDER_WAY: Final = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "BISECT_LOG": "a bisection",
}


def find_own_checkout(root: Path, branch: str) -> Path | None:
    """Return `root` if it has the branch checked out, None if no working tree has.

    Raise `Refused` if another working tree has: its files are not moved from here.
    """
    ref = f"refs/heads/{branch}"
    if place := find_rebase(root, ref):
        raise Refused(f"A rebase of {branch} is under way in {place}; end it first.")
    checkouts = list_checkouts(root, ref)
    for checkout in checkouts:
        if checkout.resolve() != root.resolve():
            raise Refused(
                f"{branch} is checked out in {checkout}, and its files would not follow. Land "
                f"there (`weft -C {checkout} land`), or leave it first "
                f"(`git -C {checkout} switch --detach`)."
            )
    return root if checkouts else None


def require_clean(
    checkout: Path, branch: str, old: str, new: str, *, marked: Collection[Path]
) -> None:
    """Raise `Refused` with the names of the user's files that keep a checkout from moving.

    `marked` are plan files, whose marks weft writes: they may differ if the move leaves them alone.
    """
    directory = git.git_directory(checkout)
    for name, operation in _UNDER_WAY.items():
        if (directory / name).exists():
            raise Refused(f"{operation.capitalize()} is under way in {checkout}; end it first.")
    shown = ("--porcelain", "-z", "--no-renames", "--untracked-files=no")
    status = split_nul(check_output(checkout, "status", *shown, seconds=LONG))
    changes = _compare(checkout, old, new)
    moved = {change.path for change in changes}
    changed = [
        path
        for path in (entry[3:] for entry in status)
        if path in moved or (checkout / path).resolve() not in marked
    ]
    if changed:
        raise Refused(
            f"{branch} is checked out in {checkout}, which has changes of yours: "
            f"{_names(changed)}. Commit them or `git stash` them, then land."
        )
    in_the_way = _find_untracked(checkout, changes)
    if in_the_way:
        raise Refused(
            f"{branch} is checked out in {checkout}, where files that git does not track are in "
            f"the way: {_names(in_the_way)}. Move them away, then land."
        )
    _require_empty_submodules(checkout, changes)
    _rehearse(checkout, directory, branch, old, new)


def _require_empty_submodules(checkout: Path, changes: Iterable[FileChange]) -> None:
    """Refuse to replace a submodule with files: git would delete all that its directory holds."""
    replaced = [
        change.path
        for change in changes
        if change.kind is not ChangeKind.DELETED
        and change.old_mode == SUBMODULE != change.new_mode
        and any((checkout / change.path).glob("*"))
    ]
    if replaced:
        raise Refused(
            f"In {checkout}, a file takes the place of {_names(replaced)}, a submodule with files. "
            f"Empty it (`git submodule deinit {shlex.quote(replaced[0])}`), then land."
        )


def _rehearse(checkout: Path, directory: Path, branch: str, old: str, new: str) -> None:
    """Ask git whether it would move the files: `git status` hides changes of marked files."""
    with _copied_index(directory) as index:
        variables = _with(index)
        run(checkout, "update-index", "-q", "--refresh", variables=variables, seconds=LONG)
        rehearsal = ("read-tree", "--dry-run", "-m", "-u", old, new)
        done = run(checkout, *rehearsal, variables=variables, seconds=LONG)
    if done.status != 0:
        raise Refused(
            f"{branch} is checked out in {checkout}, where git does not move the files: "
            f"{failure_reason(done)}. `git ls-files -v` shows files marked as unchanged (h) or "
            "skipped (S), whose changes `git status` hides."
        )


def follow(
    checkout: Path, branch: str, old: str, new: str, *, holds: Sequence[int], at: CrashPoint
) -> None:
    """Bring the files of a checkout from `old` to `new`, from any stage of an earlier try.

    A checkout that is gone, or on another branch by now, is left alone. Raise `Refused` with the
    names of files that the user has changed since.
    """
    changes = _compare(checkout, old, new)
    directory = git.git_directory(checkout)
    for _ in range(_TRIES):
        checkouts = list_checkouts(checkout, f"refs/heads/{branch}")
        if checkout.resolve() not in [path.resolve() for path in checkouts]:
            return
        with contextlib.ExitStack() as stack:
            with _locked_index(directory, checkout):
                version = _version(directory / "index")
                index = stack.enter_context(_copied_index(directory))
            if not _is_behind(checkout, index, changes, old, new):
                return
            at("copied")
            _write_files(checkout, index, changes, old, new, holds)
            at("written")
            with _locked_index(directory, checkout):
                at("locked")
                if _version(directory / "index") == version:
                    os.replace(index, directory / "index")
                    return
    raise Refused(
        f"Another git keeps changing the index of {checkout}. When none runs there, `weft land` "
        "moves the rest."
    )


def _version(index: Path) -> tuple[int, int, int]:
    """Return numbers that change with the index: git writes a new file each time."""
    status = index.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


@contextlib.contextmanager
def _copied_index(directory: Path) -> Iterator[Path]:
    """Copy the index for the time of a landing; delete the copy, and a lock of it that a killed git
    left."""
    index = directory / "weft-land.index"
    lock = directory / "weft-land.index.lock"
    lock.unlink(missing_ok=True)
    try:
        shutil.copyfile(directory / "index", index)
        yield index
    finally:
        index.unlink(missing_ok=True)
        lock.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked_index(directory: Path, checkout: Path) -> Iterator[None]:
    """Hold git's lock of the index; take over a lock that a killed weft left."""
    own, lock = directory / OWN_LOCK, directory / INDEX_LOCK
    own.touch()
    for pause in (*_PAUSES, None):
        try:
            os.link(own, lock)
            break
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samefile(own, lock):
                    break
            if pause is None:
                raise Refused(
                    f"Another git works in {checkout}: {lock} exists. When no git runs there, "
                    f"remove that file; then `weft land` moves the files."
                ) from None
            time.sleep(pause)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        own.unlink(missing_ok=True)


def _is_behind(
    checkout: Path, index: Path, changes: Sequence[FileChange], old: str, new: str
) -> bool:
    """Tell whether the changed paths of the index are still as in `old`; False: as in `new`."""
    paths = {change.path for change in changes}
    if not paths & _staged(checkout, index, new):
        return False
    if strange := paths & _staged(checkout, index, old):
        raise Refused(
            f"{checkout} has staged changes of yours in {_names(strange)}. Unstage them "
            f"(`git restore --staged --source={old[:12]} FILE`), then `weft land` moves the files."
        )
    return True


def _staged(checkout: Path, index: Path, commit: str) -> set[str]:
    shown = ("diff-index", "--cached", "-z", "--name-only", "--no-renames", commit)
    return set(split_nul(check_output(checkout, *shown, "--", variables=_with(index))))


def _write_files(
    checkout: Path,
    index: Path,
    changes: Sequence[FileChange],
    old: str,
    new: str,
    holds: Sequence[int],
) -> None:
    _require_empty_submodules(checkout, changes)
    variables = _with(index)
    refresh = ("update-index", "-q", "--refresh")
    run(checkout, *refresh, variables=variables, seconds=LONG, holds=holds)
    listed = check_output(checkout, "diff-files", "-z", "--name-only", variables=variables)
    differing = set(split_nul(listed))
    half_done = [change for change in changes if change.path in differing]
    added = [change for change in changes if change.kind is ChangeKind.ADDED]
    half_done += [change for change in added if _is_file(checkout, change.path)]
    names = {change.path for change in added}
    strange = [
        change.path for change in half_done if not _is_ours(checkout, change, new, added=names)
    ]
    strange += [path for path in _find_untracked(checkout, changes) if path not in names]
    if strange:
        raise Refused(
            f"{_names(strange)} in {checkout} changed since `weft land` began; the file is left "
            "alone. Move it away, then `weft land` moves the rest."
        )
    _undo(checkout, half_done, variables)
    # git itself refuses to write over a file that the user changes in this moment.
    check_output(
        checkout,
        *("read-tree", "-m", "-u", old, new),
        variables=variables,
        seconds=LONG,
        holds=holds,
        repeat=False,
    )


def _is_file(checkout: Path, path: str) -> bool:
    """Tell whether a file or link is at a path, without a look through links above it."""
    above = [checkout / parent for parent in Path(path).parents]
    if any(place.is_symlink() or not place.is_dir() for place in above):
        return False
    place = checkout / path
    return place.is_symlink() or (place.exists() and not place.is_dir())


def _is_ours(checkout: Path, change: FileChange, new: str, *, added: Collection[str]) -> bool:
    """Tell whether a file is missing, or holds the first bytes that git writes for `new`: the rest
    of a move that was interrupted. A directory in its place holds only files of `new`."""
    path = checkout / change.path
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return True
    if stat.S_ISDIR(mode):
        return all(name in added for name in _list_files(checkout, path, set()))
    if change.kind is ChangeKind.DELETED or not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        return False
    written = os.fsencode(
        check_output(checkout, "cat-file", "--filters", f"{new}:{change.path}", seconds=LONG)
    )
    if stat.S_ISLNK(mode):
        return os.fsencode(os.readlink(path)) == written
    return written.startswith(path.read_bytes())


def _undo(checkout: Path, changes: Sequence[FileChange], variables: dict[str, str]) -> None:
    """Put files of an interrupted move back as they were, so that git can move them whole."""
    for change in changes:
        if change.kind is ChangeKind.ADDED:
            path = checkout / change.path
            path.unlink()
            with contextlib.suppress(OSError):  # a directory that holds more
                os.removedirs(path.parent)
    before = [change.path for change in changes if change.kind is not ChangeKind.ADDED]
    if before:
        restore = ("checkout-index", "-q", "-f", "-u", "-z", "--stdin")
        check_output(checkout, *restore, input=join_nul(before), variables=variables, seconds=LONG)


def _find_untracked(checkout: Path, changes: Sequence[FileChange]) -> list[str]:
    """List the files at places that a move writes and that git does not track, also ignored."""
    deleted = {change.path for change in changes if change.kind is ChangeKind.DELETED}
    names: dict[str, None] = {}
    for change in changes:
        if change.kind is not ChangeKind.ADDED:
            continue
        path = checkout / change.path
        parents = [parent for parent in path.parents if parent.is_relative_to(checkout)]
        for place in (*reversed(parents), path):
            name = str(place.relative_to(checkout))
            if place.is_symlink() or (os.path.lexists(place) and not place.is_dir()):
                if name not in deleted:
                    names[name] = None
                break
        else:
            if path.is_dir():
                names |= dict.fromkeys(name for name in _list_files(checkout, path, deleted))
    return list(names)


def _list_files(checkout: Path, directory: Path, tracked: set[str]) -> Iterator[str]:
    for place, directories, names in os.walk(directory):
        links = [name for name in directories if os.path.islink(os.path.join(place, name))]
        for name in (*names, *links):
            path = str(Path(place, name).relative_to(checkout))
            if path not in tracked:
                yield path


def _compare(checkout: Path, old: str, new: str) -> list[FileChange]:
    """Return the changes between two commits, a rename as a deletion and an addition."""
    changes = []
    for change in git.compare_trees(checkout, old, new):
        if change.source is None:
            changes.append(change)
        else:
            changes.append(replace(change, kind=ChangeKind.DELETED, path=change.source))
            changes.append(replace(change, kind=ChangeKind.ADDED))
    return changes


def _with(index: Path) -> dict[str, str]:
    return {"GIT_INDEX_FILE": str(index)}


def _names(paths: Iterable[str]) -> str:
    names = sorted(paths)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
