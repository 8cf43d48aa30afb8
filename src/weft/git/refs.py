"""References: questions, compare-and-swap of many at once, and commits that none reaches."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft import process
from weft.git import gc_lock
from weft.git.git_command import (
    LONG,
    GitFailed,
    ObjectsGone,
    check_output,
    failure_reason,
    has_died,
    run,
    tries,
)

_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")

_COMMITTER: Final = {"GIT_COMMITTER_NAME": "weft", "GIT_COMMITTER_EMAIL": "weft@localhost"}
_HELD: Final = 1.0  # seconds for which a living git locks a reference, at most
_COARSE: Final = 0.1  # seconds by which file times may lag behind the clock


class Update(Struct, frozen=True, kw_only=True):
    """The move of a reference from `old` to `new`; None stands for a missing reference."""

    ref: str
    old: str | None
    new: str | None


class RefMoved(GitFailed):
    """A reference is not at its expected commit."""


def update_refs(repository: Path, updates: Sequence[Update], *, why: str = "weft") -> None:
    """Move all of these references, or none if any is not at its expected commit.

    A symbolic reference that an agent made is not followed. A git that dies may have moved some of
    the references, and may have left its locks.
    """
    missing = list(updates)
    for last in tries():
        if not missing:
            return
        begun = time.time()
        done = _update(repository, missing, why)
        if done.status == 0:
            return
        if last or not has_died(done):
            break
        locks = _find_locks(repository, missing, begun)
        time.sleep(_HELD if locks else 0)
        _remove_unchanged(locks)
        now = list_refs(repository, *(update.ref for update in missing))
        missing = [update for update in missing if now.get(update.ref) != update.new]
    text = f"git did not move {missing[0].ref}: {failure_reason(done)}"
    raise (ObjectsGone if "nonexistent object" in done.errors else RefMoved)(text)


def _update(repository: Path, updates: Sequence[Update], why: str) -> process.Completed:
    # Without a name git asks for that of the machine: 5 s for each reference on a host without DNS.
    lines = ["start\n", *map(_line, updates), "prepare\n", "commit\n"]
    return run(
        repository,
        *("update-ref", "--no-deref", "--create-reflog", "-m", why, "--stdin"),
        input="".join(lines).encode(),
        variables=_COMMITTER,
        repeat=False,
    )


def _find_locks(
    repository: Path, updates: Sequence[Update], begun: float
) -> dict[Path, os.stat_result]:
    """Return the lock files of these references that are newer than the start of a dead git."""
    common = gc_lock.ask_common_directory(repository)
    names = [*(f"{update.ref}.lock" for update in updates), "packed-refs.lock", "packed-refs.new"]
    locks = {}
    for path in (common / name for name in names):
        with contextlib.suppress(OSError):
            status = path.lstat()
            if status.st_mtime >= begun - _COARSE:
                locks[path] = status
    return locks


def _remove_unchanged(locks: Mapping[Path, os.stat_result]) -> None:
    """Remove locks that have not changed since their git died: any living git is done by now."""
    for path, before in locks.items():
        with contextlib.suppress(OSError):
            now = path.lstat()
            if (now.st_ino, now.st_mtime_ns) == (before.st_ino, before.st_mtime_ns):
                path.unlink()


def _line(update: Update) -> str:
    if update.new is None:
        assert update.old is not None
        return f"delete {update.ref} {update.old}\n"
    if update.old is None:
        return f"create {update.ref} {update.new}\n"
    return f"update {update.ref} {update.new} {update.old}\n"


def list_refs(repository: Path, *prefixes: str) -> dict[str, str]:
    """Return the references below the prefixes with their commits; all without any prefix."""
    shown = "--format=%(objectname) %(refname)"
    lines = check_output(repository, "for-each-ref", shown, *prefixes).splitlines()
    return {ref: commit for commit, _, ref in (line.partition(" ") for line in lines)}


def list_merged(repository: Path, prefix: str, into: str = "HEAD") -> set[str]:
    """List the references below a prefix whose commits a commit contains."""
    done = run(repository, "for-each-ref", f"--merged={into}", "--format=%(refname)", prefix)
    return set(done.output.split()) if done.status == 0 else set()  # 1: there is no commit yet


def find_ref(repository: Path, ref: str) -> str | None:
    """Return the commit of a full reference name."""
    return list_refs(repository, ref).get(ref)


def is_branch_name(repository: Path, name: str) -> bool:
    """Tell whether git accepts a branch name and reads it as it is."""
    if "\0" in name:
        return False
    done = run(repository, "check-ref-format", "--branch", name)
    return done.status == 0 and done.output.strip() == name


def find_symbolic_target(repository: Path, ref: str) -> str | None:
    """Return the reference that a symbolic reference stands for; None for any other reference."""
    done = run(repository, "symbolic-ref", "--quiet", ref)
    return done.output.strip() if done.status == 0 else None


def find_branch(repository: Path, name: str) -> str | None:
    """Return the branch that a name stands for: `HEAD` for the branch that is checked out."""
    if name.startswith("-"):
        return None
    full = run(repository, "rev-parse", "--symbolic-full-name", name).output.strip()
    return full.removeprefix("refs/heads/") if full.startswith("refs/heads/") else None


def find_checkouts(repository: Path, ref: str) -> list[Path]:
    """Return the working trees that have a branch checked out, even a branch without a commit."""
    trees = list_working_trees(repository).items()
    return [path for path, lines in trees if f"branch {ref}" in lines]


def list_working_trees(repository: Path) -> dict[Path, list[str]]:
    """Return the working trees with the lines that `git worktree list` prints about each."""
    entries = check_output(repository, "worktree", "list", "--porcelain", "-z").split("\0\0")
    trees = [entry.split("\0") for entry in entries if entry]
    return {Path(lines[0].removeprefix("worktree ")): lines for lines in trees}


def find_commits(repository: Path, ids: Iterable[str]) -> dict[str, str]:
    """Return the ids that are commits of the repository, each with its tree."""
    asked = sorted({id for id in ids if _ID.fullmatch(id) and id.strip("0")})
    if not asked:
        return {}
    lines = check_output(
        repository,
        *("cat-file", "--batch-check=%(objectname) %(objecttype)"),
        input="".join(f"{id}\n{id}^{{tree}}\n" for id in asked).encode(),
    ).splitlines()
    pairs = zip(lines[::2], lines[1::2], strict=True)
    return {
        commit.split()[0]: tree.split()[0] for commit, tree in pairs if commit.endswith(" commit")
    }


def list_unreachable(
    repository: Path, tips: Collection[str], *, excluding: Collection[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Return the commits that only the tips reach, with their parents, newest first.

    References named in `excluding` do not count.
    """
    if not tips:
        return {}
    lines = check_output(
        repository,
        *("rev-list", "--topo-order", "--parents", "--stdin", *_not_reached_by(excluding)),
        input="".join(f"{tip}\n" for tip in tips).encode(),
    ).splitlines()
    return {line.split()[0]: tuple(line.split()[1:]) for line in lines}


def _not_reached_by(excluding: Collection[str], besides: Collection[str] = ()) -> list[str]:
    # `--glob` and not `--all`: HEAD of this directory may be a reference to delete.
    return ["--not", *besides, *(f"--exclude={ref}" for ref in excluding), "--glob=refs/*"]


def lacks_objects(
    repository: Path,
    tips: Collection[str],
    *,
    besides: Collection[str] = (),
    excluding: Collection[str] = (),
) -> bool:
    """Tell whether an object is missing that the tips reach and no reference or `besides` reaches.

    References named in `excluding` do not count. Objects promised to a partial clone are not
    missing.
    """
    done = run(
        repository,
        *("rev-list", "--objects", "--quiet", "--exclude-promisor-objects", "--stdin"),
        *_not_reached_by(excluding, besides),
        input="".join(f"{tip}\n" for tip in tips).encode(),
        seconds=LONG,
    )
    return done.status != 0


def update_refs_to_whole(
    repository: Path, updates: Sequence[Update], *, excluding: str, why: str = "weft"
) -> None:
    """Move references to new commits; if an object is missing, move them back and raise GitFailed.

    Until a reference reaches the commits, a `git gc --prune=now` of the user may remove their
    objects; one that runs now may have missed the references, so its end is awaited. Objects of
    the commit `excluding` are not checked.
    """
    update_refs(repository, updates, why=why)
    gc_lock.wait_for_collectors(repository)
    made = [update.new for update in updates if update.new is not None]
    walk = ("rev-list", "--objects", "--quiet", *made, f"^{excluding}")
    try:
        check_output(repository, *walk, seconds=LONG)
    except GitFailed:
        back = [Update(ref=update.ref, old=update.new, new=update.old) for update in updates]
        update_refs(repository, back, why="weft: not whole")
        raise


def has_changes_of(directory: Path, tip: str) -> bool:
    """Tell whether the checked-out branch has all changes of a commit: by the same commits, or by
    commits with the same changes, such as cherry-picks."""
    done = run(
        directory, *("rev-list", "--cherry-pick", "--right-only", "--max-count=1"), f"HEAD...{tip}"
    )
    return done.status == 0 and not done.output


def list_commits(repository: Path, old: str, new: str) -> list[str]:
    """List the commits by which a branch moved from `old` to `new`, first to last."""
    walk = ("rev-list", "--reverse", "--first-parent", f"{old}..{new}")
    return check_output(repository, *walk).splitlines()


def list_messages(repository: Path, commits: Sequence[str]) -> list[str]:
    """List the messages of commits, in this order."""
    if not commits:
        return []
    output = check_output(repository, "log", "-z", "--no-walk=unsorted", "--format=%B", *commits)
    return [text for text in output.split("\0") if text.strip()]


def find_heads(commits: dict[str, tuple[str, ...]]) -> list[str]:
    """Return the commits that are parents of none of these commits."""
    inner = {parent for parents in commits.values() for parent in parents}
    return [commit for commit in commits if commit not in inner]


def is_ancestor(repository: Path, ancestor: str, commit: str) -> bool:
    """Tell whether a commit contains `ancestor`, or is the same commit."""
    done = run(repository, "merge-base", "--is-ancestor", ancestor, commit)
    if done.status not in (0, 1):
        raise GitFailed(f"git cannot compare {ancestor} and {commit}: {done.errors.strip()}")
    return done.status == 0
