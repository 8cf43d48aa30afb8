"""References: read, compare-and-swap many at once, and what they do not reach."""

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
from weft.git.git_command import LONG, GitFailed, answer, has_died, run, tries, why_failed

_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")

_HELD: Final = 1.0  # seconds a living git holds the lock of a reference at most
_COARSE: Final = 0.1  # seconds by which file times may lag behind the clock


class Update(Struct, frozen=True, kw_only=True):
    """One reference moved from `old` to `new`; None is: there is none."""

    ref: str
    old: str | None
    new: str | None


class RefMoved(GitFailed):
    """A reference is not where it was expected."""


def update_refs(repository: Path, updates: Sequence[Update], *, why: str = "weft") -> None:
    """Move all of these references, or none if any of them is not where it was expected.

    The reference itself is written: a symbolic reference that an agent made is not followed. A git
    that dies meanwhile may have moved some or all of them, and may have left its locks.
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
        now = list_refs(repository, *(one.ref for one in missing))
        missing = [one for one in missing if now.get(one.ref) != one.new]
    raise RefMoved(f"git did not move {missing[0].ref}: {why_failed(done)}")


def _update(repository: Path, updates: Sequence[Update], why: str) -> process.Completed:
    lines = ["start\n", *map(_line, updates), "prepare\n", "commit\n"]
    return run(
        repository,
        *("update-ref", "--no-deref", "--create-reflog", "-m", why, "--stdin"),
        input="".join(lines).encode(),
        repeat=False,
    )


def _find_locks(
    repository: Path, updates: Sequence[Update], begun: float
) -> dict[Path, os.stat_result]:
    """Return the lock files of these references that were made after the git that died had
    started."""
    common = Path(
        answer(repository, "rev-parse", "--path-format=absolute", "--git-common-dir").strip("\n")
    )
    names = [*(f"{one.ref}.lock" for one in updates), "packed-refs.lock", "packed-refs.new"]
    found = {}
    for path in (common / name for name in names):
        with contextlib.suppress(OSError):
            status = path.lstat()
            if status.st_mtime >= begun - _COARSE:
                found[path] = status
    return found


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
    """References beneath the prefixes, with what they point at; all without any prefix."""
    found = answer(repository, "for-each-ref", "--format=%(objectname) %(refname)", *prefixes)
    return {ref: commit for commit, _, ref in (line.partition(" ") for line in found.splitlines())}


def find_ref(repository: Path, ref: str) -> str | None:
    """What a full reference name points at."""
    return list_refs(repository, ref).get(ref)


def is_branch_name(repository: Path, name: str) -> bool:
    """Whether a branch can be called so. What git would take for another one's name cannot."""
    if "\0" in name:
        return False
    done = run(repository, "check-ref-format", "--branch", name)
    return done.status == 0 and done.output.strip() == name


def find_checkouts(repository: Path, ref: str) -> list[Path]:
    """Return the working trees that have a branch checked out, even a branch without a commit."""
    entries = answer(repository, "worktree", "list", "--porcelain", "-z").split("\0\0")
    lines = [entry.split("\0") for entry in entries]
    return [Path(one[0].removeprefix("worktree ")) for one in lines if f"branch {ref}" in one]


def find_commits(repository: Path, ids: Iterable[str]) -> dict[str, str]:
    """Those of the ids that are commits here, each with its tree."""
    asked = sorted({one for one in ids if _ID.fullmatch(one) and one.strip("0")})
    if not asked:
        return {}
    answered = answer(
        repository,
        *("cat-file", "--batch-check=%(objectname) %(objecttype)"),
        input="".join(f"{one}\n{one}^{{tree}}\n" for one in asked).encode(),
    ).splitlines()
    pairs = zip(answered[::2], answered[1::2], strict=True)
    return {one.split()[0]: tree.split()[0] for one, tree in pairs if one.endswith(" commit")}


def unreachable(
    repository: Path, tips: Collection[str], *, excluding: Collection[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Commits that the tips reach and no reference does, with their parents, newest first.

    References named in `excluding` do not count as reaching anything.
    """
    if not tips:
        return {}
    others = [f"--exclude={ref}" for ref in excluding]
    # `--glob` and not `--all`: the HEAD of the directory asked in may be the one to go.
    found = answer(
        repository,
        *("rev-list", "--topo-order", "--parents", "--stdin", "--not", *others, "--glob=refs/*"),
        input="".join(f"{tip}\n" for tip in tips).encode(),
    )
    return {line.split()[0]: tuple(line.split()[1:]) for line in found.splitlines()}


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
    others = [f"--exclude={ref}" for ref in excluding]
    done = run(
        repository,
        *("rev-list", "--objects", "--quiet", "--exclude-promisor-objects", "--stdin"),
        *("--not", *besides, *others, "--glob=refs/*"),
        input="".join(f"{tip}\n" for tip in tips).encode(),
        seconds=LONG,
    )
    return done.status != 0


def keep_whole(
    repository: Path, updates: Sequence[Update], *, excluding: str, why: str = "weft"
) -> None:
    """Move references to new commits; if an object is missing, move them back and raise an error.

    Until a reference reaches the commits, a `git gc --prune=now` of the user's may remove their
    objects. Objects of the commit `excluding` are not checked.
    """
    update_refs(repository, updates, why=why)
    made = [one.new for one in updates if one.new is not None]
    try:
        answer(repository, "rev-list", "--objects", "--quiet", *made, f"^{excluding}", seconds=LONG)
    except GitFailed:
        back = [Update(ref=one.ref, old=one.new, new=one.old) for one in updates]
        update_refs(repository, back, why="weft: not whole")
        raise


def is_taken(directory: Path, tip: str) -> bool:
    """Whether all that a commit brings is in the branch checked out there: by the same commits,
    or by ones that make the same changes, as a cherry-pick does."""
    done = run(
        directory, *("rev-list", "--cherry-pick", "--right-only", "--max-count=1"), f"HEAD...{tip}"
    )
    return done.status == 0 and not done.output  # without a commit nothing is taken


def list_commits(repository: Path, old: str, new: str) -> list[str]:
    """The commits by which a branch moved from `old` to `new`, first to last."""
    found = answer(repository, "rev-list", "--reverse", "--first-parent", f"{old}..{new}")
    return found.splitlines()


def heads(commits: dict[str, tuple[str, ...]]) -> list[str]:
    """Those of the commits that no other of them descends from."""
    inner = {parent for parents in commits.values() for parent in parents}
    return [commit for commit in commits if commit not in inner]


def is_ancestor(repository: Path, ancestor: str, commit: str) -> bool:
    """Whether a commit contains another, or is it."""
    done = run(repository, "merge-base", "--is-ancestor", ancestor, commit)
    if done.status not in (0, 1):
        raise GitFailed(f"git cannot compare {ancestor} and {commit}: {done.errors.strip()}")
    return done.status == 0
