"""What must stay as it is while agents work: the user's checkout, branches, settings and hooks.

Taken before and after and compared in words. Looks at files the way git does (size, times), so
it costs about as much as `git status`, and writes nothing into the repository.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weft import git
from weft.git import View
from weft.git.command import through
from weft.git.trees import differences
from weft.workspace import worktree
from weft.workspace.names import BRANCHES, TRUNKS


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    head: str  # what is checked out
    index: str  # a digest of what is staged
    files: Mapping[str, str]  # tracked files that differ from the index
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
    index, files = _checkout(repository, directory, common, settings, staged)
    refs = git.list_refs(repository, "refs/heads", "refs/tags", "refs/stash")
    hooks = Path(os.path.expanduser(settings.get("core.hookspath", "hooks")))
    return Fingerprint(
        head=_read(directory / "HEAD").strip(),
        index=index,
        files=files,
        refs={ref: at for ref, at in refs.items() if not ref.startswith((BRANCHES, TRUNKS))},
        settings=settings_files(repository),
        hooks=dict(_digests(sorted(_files_in(common / hooks)))),
        stat=stat,
    )


def settings_files(repository: Path) -> dict[str, str]:
    """Digests of the files in which a repository is configured, by path."""
    directory, common = git.git_directory(repository), git.common_directory(repository)
    return dict(_digests(_settings_files(directory, common)))


def compare(before: Fingerprint, after: Fingerprint) -> tuple[str, ...]:
    """What changed in between, one sentence each."""
    found = []
    if before.head != after.head:
        found.append(f"The checkout was on {before.head} and is on {after.head}.")
    if before.index != after.index:
        found.append("What is staged changed.")
    found += _compare("The file", before.files, after.files)
    found += _compare("The reference", before.refs, after.refs)
    found += _compare("The settings in", before.settings, after.settings)
    found += _compare("The hook", before.hooks, after.hooks)
    return tuple(found)


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


def _checkout(
    repository: Path,
    directory: Path,
    common: Path,
    settings: Mapping[str, str],
    staged: str | None,
) -> tuple[str, dict[str, str]]:
    """A digest of the index, unless given, and the state of each file that is not as staged."""
    root = git.find_top_level(repository)
    if root is None or not (directory / "index").exists():
        return "", {}
    with tempfile.TemporaryDirectory(prefix="weft-look-") as place:
        view = _view(Path(place), root, directory, common, settings)
        staged = staged or _digest(through(view, "ls-files", "-z", "--stage"))
        found = differences(view)
    files = {path: _state(root / path) for path in (*found.modified, *found.deleted)}
    return staged, files


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()


def _view(
    place: Path, root: Path, directory: Path, common: Path, settings: Mapping[str, str]
) -> View:
    # A copy keeps the index's time, by which git knows the files it must look into.
    shutil.copy2(directory / "index", place / "index")
    for shared in directory.glob("sharedindex.*"):
        shutil.copy2(shared, place / shared.name)
    worktree.write_git_directory(place, settings)
    carried = worktree.carried(settings)
    return View(
        directory=place,
        objects=common / "objects",
        tree=root,
        index=place / "index",
        settings={key: value for key, value in carried.items() if key.startswith("core.")},
    )


def _state(path: Path) -> str:
    try:
        status = path.lstat()
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
