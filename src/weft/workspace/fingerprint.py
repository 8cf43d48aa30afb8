"""What must stay as it is while agents work: the user's checkout, branches, settings and hooks.

Taken before and after and compared in words. Looks at files the way git does (size, times), so
it costs about as much as `git status`, and writes nothing into the repository.

Files that git neither tracks nor ignores are the user's too. git lists them anyway; a look at
each costs 5 microseconds, and 3 more to keep. Hence a bound, for this is done before each start:
of more than `_WATCHED` (10,000, say), only those at the top of the checkout are looked at, and of
the rest is known whether any came or went; that costs what the listing does. Of repositories
within the checkout is known that they are there.
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
from weft.git.git_command import through
from weft.git.scratch import scratch_directory
from weft.git.trees import differences
from weft.workspace import worktree
from weft.workspace.names import BRANCHES, TRUNKS

_WATCHED: Final = 2_000  # untracked files that are looked at one by one
_REPOSITORY: Final = "a repository"


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    head: str  # what is checked out
    index: str  # a digest of what is staged
    files: Mapping[str, str]  # tracked files that differ from the index
    untracked: Mapping[str, str]  # what is neither tracked nor ignored
    crowd: str  # a digest of its names where there is too much of it to look at each
    refs: Mapping[str, str]  # branches, tags and the stash, weft's own apart
    settings: Mapping[str, str]  # digests of configuration and exclude files, by path
    hooks: Mapping[str, str]
    stat: str = field(default="", compare=False)  # of the index file


def fingerprint(
    repository: Path,
    *,
    settings: Mapping[str, str] | None = None,
    last: Fingerprint | None = None,
) -> Fingerprint:
    """`settings` and `last`, an earlier look, spare git questions whose answers are known."""
    directory = git.git_directory(repository)
    common = git.common_directory(repository)
    settings = git.settings(repository) if settings is None else settings
    stat = _state(directory / "index")
    staged = last.index if last is not None and last.stat == stat else None
    seen = _checkout(repository, directory, common, settings, staged)
    refs = git.list_refs(repository, "refs/heads", "refs/tags", "refs/stash")
    hooks = Path(os.path.expanduser(settings.get("core.hookspath", "hooks")))
    return Fingerprint(
        head=_read(directory / "HEAD").strip(),
        index=seen.index,
        files=seen.files,
        untracked=seen.untracked,
        crowd=seen.crowd,
        refs={ref: at for ref, at in refs.items() if not ref.startswith((BRANCHES, TRUNKS))},
        settings=settings_files(repository),
        hooks=dict(_digests(sorted(_files_in(common / hooks)))),
        stat=stat,
    )


def settings_files(repository: Path) -> dict[str, str]:
    """Digests of the files in which a repository is configured, by path."""
    directory, common = git.git_directory(repository), git.common_directory(repository)
    return dict(_digests(_settings_files(directory, common)))


def compare(
    before: Fingerprint, after: Fingerprint, *, ours: Collection[str] = ()
) -> tuple[str, ...]:
    """What changed in between, one sentence each.

    `ours` are patterns of files in the checkout that weft writes itself: these say nothing.
    """
    found = []
    if before.head != after.head:
        found.append(f"The checkout was on {before.head} and is on {after.head}.")
    if before.index != after.index:
        found.append("What is staged changed.")
    found += _compare("The file", _without(before.files, ours), _without(after.files, ours))
    found += _compare_untracked(before, after, ours)
    found += _compare("The reference", before.refs, after.refs)
    found += _compare("The settings in", before.settings, after.settings)
    found += _compare("The hook", before.hooks, after.hooks)
    return tuple(found)


def _compare_untracked(
    before: Fingerprint, after: Fingerprint, ours: Collection[str]
) -> Iterator[str]:
    old, new = _without(before.untracked, ours), _without(after.untracked, ours)
    if before.crowd or after.crowd:
        old, new = _at_the_top(old), _at_the_top(new)
    found = list(_compare("The untracked file", old, new))
    yield from found
    if before.crowd != after.crowd and not found:
        yield "Of the untracked files, which are too many to look at each, some came or went."


def _without(files: Mapping[str, str], ours: Collection[str]) -> Mapping[str, str]:
    if not ours:
        return files
    return {
        name: state
        for name, state in files.items()
        if not any(fnmatchcase(name, one) for one in ours)
    }


def _at_the_top(files: Mapping[str, str]) -> dict[str, str]:
    return {name: state for name, state in files.items() if "/" not in name}


def _compare(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        if before.get(name) == after.get(name):
            continue
        if what == "The file":
            how = "changed in the checkout"
        elif name not in before:
            how = "is new"
        else:
            how = "changed" if name in after else "is gone"
        yield f"{what} {name!r} {how}."


@dataclass(frozen=True, kw_only=True)
class _Checkout:
    """The part of a fingerprint that is about files."""

    index: str
    files: dict[str, str]
    untracked: dict[str, str]
    crowd: str


def _checkout(
    repository: Path,
    directory: Path,
    common: Path,
    settings: Mapping[str, str],
    staged: str | None,
) -> _Checkout:
    """`staged`, a digest of the index, is found out unless it is given."""
    root = git.find_top_level(repository)
    if root is None or not (directory / "index").exists():
        return _Checkout(index="", files={}, untracked={}, crowd="")
    with scratch_directory(common) as place:
        view = _view(place, root, directory, common, settings)
        staged = staged or _digest(through(view, "ls-files", "-z", "--stage"))
        found = differences(view)
    crowded = len(found.untracked) > _WATCHED
    watched = [one for one in found.untracked if "/" not in one or not crowded]
    return _Checkout(
        index=staged,
        files=_states(root, (*found.modified, *found.deleted)),
        untracked=_states(root, watched) | dict.fromkeys(found.nested, _REPOSITORY),
        crowd=_digest("\0".join(found.untracked)) if crowded else "",
    )


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()


def _view(
    place: Path, root: Path, directory: Path, common: Path, settings: Mapping[str, str]
) -> GitView:
    # A copy keeps the index's time, by which git knows the files it must look into.
    shutil.copy2(directory / "index", place / "index")
    for shared in directory.glob("sharedindex.*"):
        shutil.copy2(shared, place / shared.name)
    worktree.write_git_directory(place, settings)
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(common / "info" / "exclude", place / "info" / "exclude")
    carried = worktree.carried(settings)
    return GitView(
        directory=place,
        objects=common / "objects",
        tree=root,
        index=place / "index",
        settings={key: value for key, value in carried.items() if key.startswith("core.")},
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


def _settings_files(directory: Path, common: Path) -> list[Path]:
    shared = [common / "config", common / "info" / "exclude", common / "info" / "attributes"]
    return [*shared, directory / "config.worktree", directory / "info" / "sparse-checkout"]


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
