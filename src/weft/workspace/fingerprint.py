"""Fingerprints of the user's checkout, branches, settings and hooks, which agents must not change.

Two fingerprints are compared as sentences. Files are compared the way git does (size, times), which
costs about as much as `git status` and leaves the repository as it is.

Untracked files are the user's too. git lists them anyway; the state of each costs 8 microseconds,
before each start of an agent. So of more than `_WATCHED` untracked files, only those at the top of
the checkout are compared, and the rest only by their names. Nested repositories are compared by
their names.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from weft import git
from weft.git import GitView
from weft.git.disk import scratch_directory
from weft.git.git_view import view_output, write_git_directory
from weft.git.trees import Differences, compare_to_index
from weft.workspace.names import BRANCHES, OLD_BRANCHES, TRUNKS
from weft.workspace.worktree import checkout_settings

_WATCHED: Final = 2_000  # untracked files whose states are compared
_REPOSITORY: Final = "a repository"


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    head: str  # the checked-out branch or commit
    index: str  # a digest of the staged files
    files: Mapping[str, str]  # tracked files that differ from the index
    untracked: Mapping[str, str]
    crowd: str  # a digest of the names of untracked files, if there are too many
    refs: Mapping[str, str]  # branches, tags and the stash, without weft's
    settings: Mapping[str, str]  # digests of configuration and exclude files, by path
    hooks: Mapping[str, str]
    stat: str = field(default="", compare=False)  # of the index file


def fingerprint(
    repository: Path,
    *,
    settings: Mapping[str, str] | None = None,
    last: Fingerprint | None = None,
) -> Fingerprint:
    """Take a fingerprint; `settings` and `last`, an earlier fingerprint, save calls of git."""
    directory = git.git_directory(repository)
    common = git.common_directory(repository)
    settings = git.read_settings(repository) if settings is None else settings
    stat = _state(directory / "index")
    staged = last.index if last is not None and last.stat == stat else None
    root = git.find_top_level(repository)
    index, changed = _compare_checkout(root, directory, common, settings, staged)
    crowded = len(changed.untracked) > _WATCHED
    watched = [path for path in changed.untracked if "/" not in path or not crowded]
    top = root or repository
    refs = git.list_refs(repository, "refs/heads", "refs/tags", "refs/stash")
    hooks = Path(os.path.expanduser(settings.get("core.hookspath", "hooks")))
    return Fingerprint(
        head=_read(directory / "HEAD").strip(),
        index=index,
        files=_states(top, (*changed.modified, *changed.deleted)),
        untracked=_states(top, watched) | dict.fromkeys(changed.nested, _REPOSITORY),
        crowd=_digest("\0".join(changed.untracked)) if crowded else "",
        refs={
            ref: at
            for ref, at in refs.items()
            if not ref.startswith((BRANCHES, OLD_BRANCHES, TRUNKS))
        },
        settings=settings_files(repository),
        hooks=dict(_digests(sorted(_files_in(common / hooks)))),
        stat=stat,
    )


def settings_files(repository: Path) -> dict[str, str]:
    """Return the digests of a repository's configuration files, by path."""
    directory, common = git.git_directory(repository), git.common_directory(repository)
    shared = [common / "config", common / "info" / "exclude", common / "info" / "attributes"]
    own = [directory / "config.worktree", directory / "info" / "sparse-checkout"]
    return dict(_digests([*shared, *own]))


def compare(
    before: Fingerprint, after: Fingerprint, *, ours: Collection[str] = ()
) -> tuple[str, ...]:
    """Return a sentence for each difference.

    `ours` are patterns of files in the checkout that weft writes itself: these do not count.
    """
    changes = []
    if before.head != after.head:
        changes.append(f"The checkout was on {before.head} and is on {after.head}.")
    if before.index != after.index:
        changes.append("What is staged changed.")
    changes += _compare("The file", _without(before.files, ours), _without(after.files, ours))
    changes += _compare_untracked(before, after, ours)
    changes += _compare("The reference", before.refs, after.refs)
    changes += _compare("The settings in", before.settings, after.settings)
    changes += _compare("The hook", before.hooks, after.hooks)
    return tuple(changes)


def _compare_untracked(
    before: Fingerprint, after: Fingerprint, ours: Collection[str]
) -> Iterator[str]:
    old, new = _without(before.untracked, ours), _without(after.untracked, ours)
    if before.crowd or after.crowd:
        old, new = _at_the_top(old), _at_the_top(new)
    changes = list(_compare("The untracked file", old, new))
    yield from changes
    if before.crowd != after.crowd and not changes:
        yield "Of the untracked files, which are too many to look at each, some came or went."


def _without(files: Mapping[str, str], ours: Collection[str]) -> Mapping[str, str]:
    if not ours:
        return files
    return {
        name: state
        for name, state in files.items()
        if not any(fnmatchcase(name, pattern) for pattern in ours)
    }


def _at_the_top(files: Mapping[str, str]) -> dict[str, str]:
    return {name: state for name, state in files.items() if "/" not in name}


def _compare(kind: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        if before.get(name) == after.get(name):
            continue
        if kind == "The file":
            how = "changed in the checkout"
        elif name not in before:
            how = "is new"
        else:
            how = "changed" if name in after else "is gone"
        yield f"{kind} {name!r} {how}."


def _compare_checkout(
    root: Path | None,
    directory: Path,
    common: Path,
    settings: Mapping[str, str],
    staged: str | None,
) -> tuple[str, Differences]:
    """Return the digest of the index (`staged` if given) and the changed files."""
    if root is None or not (directory / "index").exists():
        return "", Differences(modified=(), deleted=(), untracked=(), nested=())
    with scratch_directory(common) as place:
        view = _view(place, root, directory, common, settings)
        staged = staged or _digest(view_output(view, "ls-files", "-z", "--stage"))
        return staged, compare_to_index(view)


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()


def _view(
    place: Path, root: Path, directory: Path, common: Path, settings: Mapping[str, str]
) -> GitView:
    # With its time: git compares it with the times of the files.
    shutil.copy2(directory / "index", place / "index")
    for shared in directory.glob("sharedindex.*"):
        shutil.copy2(shared, place / shared.name)
    write_git_directory(place, settings)
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(common / "info" / "exclude", place / "info" / "exclude")
    checkout = checkout_settings(settings)
    return GitView(
        directory=place,
        objects=common / "objects",
        tree=root,
        index=place / "index",
        settings={key: value for key, value in checkout.items() if key.startswith("core.")},
    )


def _states(root: Path, paths: Sequence[str]) -> dict[str, str]:
    above = os.fspath(root)
    return {path: _state(f"{above}/{path}") for path in paths}


def _state(path: Path | str) -> str:
    try:
        status = os.lstat(path)
    except OSError:
        return "gone"
    return f"{status.st_mode:o} {status.st_size} {status.st_mtime_ns} {status.st_ino}"


def _files_in(directory: Path) -> Iterator[Path]:
    for above, _, names in os.walk(directory):
        yield from (Path(above) / name for name in names)


def _digests(files: list[Path]) -> Iterator[tuple[str, str]]:
    for path in files:
        if path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            yield str(path), f"{path.stat().st_mode:o} {content}"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape")
