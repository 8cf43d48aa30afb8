"""Set-up of a workspace: ignored files that the project needs, and a command.

It runs every time a workspace is prepared, since that removes all untracked files; so no file can
be stale.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import shutil
import stat
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from weft import paths, process
from weft.config import WorkspaceSettings
from weft.errors import SetUpFailed
from weft.git.repository import find_ignored, find_top_level
from weft.process.box import enclose, remove_command
from weft.process.container_end import end_container
from weft.workspace.workspace_records import Slot, Terms, Workspace
from weft.workspace.worktree import quote_pattern

log = logging.getLogger(__name__)

_TAIL: Final = 2000  # characters of output shown with a failure
_RESTLESS: Final = 3  # changes after which the files are no longer followed
_TOP: Final = 10_000  # entries of a linked directory
_FRESH: Final = 2.0  # seconds in which a file may change and keep its times


def port_variables(ports: Sequence[int]) -> dict[str, str]:
    """Return the variables that tell programs in a workspace their own ports."""
    if not ports:
        return {}
    numbered = {f"WEFT_PORT_{place}": str(port) for place, port in enumerate(ports, start=1)}
    return {"WEFT_PORT": str(ports[0]), **numbered}


def set_up(
    workspace: Workspace,
    settings: WorkspaceSettings,
    *,
    repository: Path,
    environment: Mapping[str, str],
) -> None:
    """Copy and link ignored files of the user's checkout, and run the set-up command."""
    if settings.teardown:
        variables = {
            key: value for key, value in environment.items() if key.startswith("WEFT_PORT")
        }
        record = workspace.slot.get_record()
        workspace.slot.write_record(replace(record, to_tear_down=variables))
    _keep(workspace, settings, repository)
    names = [normalise(name) for name in (*settings.copy, *settings.link)]
    if names:
        root = _get_root(repository)
        _refuse_unignored(root, names)
        # Excluded before they exist, so that they never become part of a candidate.
        _exclude(workspace, names)
        for name in names[: len(settings.copy)]:
            _copy(_source(root, name), _destination(workspace.path, name))
        for name in names[len(settings.copy) :]:
            _destination(workspace.path, name).symlink_to(_source(root, name))
    if settings.setup:
        _run(workspace, settings.setup, settings.timeout, environment)


def _keep(workspace: Workspace, settings: WorkspaceSettings, repository: Path) -> None:
    """Exclude the kept directories from every candidate."""
    names = [normalise(name) for name in settings.keep]
    if names:
        _refuse_unignored(_get_root(repository), [f"{name}/" for name in names])
        _exclude(workspace, names)


def tear_down(slot: Slot, terms: Terms) -> None:
    """Run the teardown command of a workspace that was set up; log a failure and go on."""
    if terms.rules.setup:  # its container outlives a weft that was killed
        end_container(remove_command(terms.box, name_container(slot)), terms.environment)
    record = slot.get_record()
    command = terms.rules.teardown
    if record.to_tear_down is None or command is None or not slot.tree.is_dir():
        return
    log_file = slot.directory / "teardown.log"
    variables = {**terms.environment, **record.to_tear_down}
    try:
        status = _run_boxed(slot, terms, command, variables, log_file, terms.rules.timeout)
    except process.ProgramMissing as error:
        log.warning("could not start the teardown command of %s: %s", slot.tree, error)
    else:
        if status != 0:
            how = "took too long" if status is None else f"ended with {status}"
            log.warning("the teardown command of %s %s: %s", slot.tree, how, _tail(log_file))
    slot.write_record(replace(record, to_tear_down=None))


def normalise(name: str) -> str:
    """Normalise a path of [workspace]; raise SetUpFailed for a pattern."""
    path = paths.normalise(name.rstrip("/"))
    if not paths.is_literal(path):
        raise SetUpFailed(f"[workspace] names {name!r}; write plain paths, without wildcards.")
    return path


def _get_root(repository: Path) -> Path:
    root = find_top_level(repository)
    if root is None:
        raise SetUpFailed("[workspace] copies files, but a bare repository has none to copy.")
    return root


def _refuse_unignored(root: Path, names: list[str]) -> None:
    ignored = find_ignored(root, names)
    for name in names:
        if name not in ignored:
            raise SetUpFailed(
                f"[workspace] names {name!r}, which git does not ignore here; commit it, or list "
                "it in .gitignore."
            )


def _exclude(workspace: Workspace, names: list[str]) -> None:
    """Exclude paths from weft's view: a rule `node_modules/` does not match a link of that name."""
    info = workspace.slot.view / "info" / "exclude"
    with info.open("a", encoding="utf-8") as file:
        file.write("\n" + "".join(f"/{quote_pattern(name)}\n" for name in names))


def _source(root: Path, name: str) -> Path:
    path = root / name
    _refuse_links(root, name)
    if path.is_symlink():
        raise SetUpFailed(f"[workspace] names {name!r}, which is a symlink; name what it leads to.")
    if not path.exists():
        raise SetUpFailed(f"[workspace] names {name!r}, which is not in {root}.")
    return path


def _destination(tree: Path, name: str) -> Path:
    _refuse_links(tree, name)
    path = tree / name
    if os.path.lexists(path):
        raise SetUpFailed(f"[workspace] names {name!r}, which the repository tracks itself.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _refuse_links(root: Path, name: str) -> None:
    """Raise if a directory above a path is a symlink, which could lead out of the repository."""
    above = root
    for part in name.split("/")[:-1]:
        above = above / part
        if above.is_symlink():
            raise SetUpFailed(f"[workspace] names {name!r}, but {above} is a symlink.")


def _copy(source: Path, destination: Path) -> None:
    try:
        if source.is_dir():
            shutil.copytree(source, destination, symlinks=True)
        else:
            shutil.copy2(source, destination)
    except (OSError, shutil.Error) as error:
        raise SetUpFailed(f"{source} cannot be copied: {error}.") from error


def _run(
    workspace: Workspace,
    command: Sequence[str],
    seconds: float,
    environment: Mapping[str, str],
) -> None:
    log = workspace.slot.directory / "setup.log"
    try:
        status = _run_boxed(workspace.slot, workspace.terms, command, environment, log, seconds)
    except process.ProgramMissing as error:
        raise SetUpFailed(f"The set-up command does not exist: {error}") from error
    if status == 0:
        return
    how = f"did not end within {seconds:g} s" if status is None else f"ended with {status}"
    raise SetUpFailed(f"The set-up command {' '.join(command)!r} {how}.\n{_tail(log)}".rstrip())


def name_container(slot: Slot) -> str:
    """Return the name of the container in which a workspace is set up and torn down."""
    return f"weft-set-up-{hashlib.sha256(str(slot.directory).encode()).hexdigest()[:16]}"


def _run_boxed(
    slot: Slot,
    terms: Terms,
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    seconds: float,
) -> int | None:
    """Run a command of the project in its box; return None if its time ran out."""
    name = name_container(slot)
    box = slot.open_box(terms.box)
    argv, variables = enclose(box, command, environment, cwd=slot.tree, name=name)
    undo = remove_command(box, name)
    end_container(undo, variables)  # of a weft that was killed here
    try:
        return process.run_logged(
            argv, directory=slot.tree, environment=variables, log=log, seconds=seconds
        )
    finally:
        end_container(undo, variables)


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        return file.read().decode(errors="replace")


class _File(NamedTuple):
    """The state of a file, directory or link; an equal state stands for equal content."""

    name: str
    mode: int
    inode: int = 0
    size: int = 0
    modified: int = 0
    changed: int = 0


class SetupFiles:
    """A name for the files that set-up brings from the user's checkout: equal names, equal files.

    Copied files are named by their content; a file is read again only if its size, times or inode
    have changed, so asking often costs little. Linked files stay the user's, may be huge, and are
    changed by the programs that use them. So they are examined once and only from outside: inode
    and times of the directory or file, and size and times of the files at its top, where installers
    keep their records. That misses changes below the top of a linked directory, later changes of
    linked files, and times and owners of copied files.
    """

    def __init__(self, repository: Path, settings: WorkspaceSettings) -> None:
        self._repository = repository
        self._settings = settings
        self._lock = threading.Lock()
        self._digests: dict[_File, str] = {}  # of file contents
        self._last: tuple[list[_File], str] | None = None  # states whose digests are all known
        self._name: str | None = None
        self._changes = 0  # since the name was last seen to stay
        self._restless = False

    def name(self) -> str:
        """Return the name of the present files.

        Files that change all the time, such as the database of a running program, would not keep a
        name for the duration of a check. After a few changes they get a random name for good: its
        verdicts hold for this object alone.
        """
        with self._lock:
            if not self._restless:
                digest = self._digest()
                self._changes += self._name not in (None, digest)
                self._restless = self._changes > _RESTLESS
                self._name = f"restless {uuid.uuid4()}" if self._restless else digest
            assert self._name is not None
            return self._name

    def keeps(self, name: str) -> bool:
        """Tell whether the files still have this name."""
        kept = self.name() == name
        if kept:
            self._changes = 0
        return kept

    @functools.cached_property
    def _root(self) -> str | None:
        """The user's checkout; None in a bare repository."""
        root = find_top_level(self._repository)
        return None if root is None else str(root)

    @functools.cached_property
    def _links(self) -> str:
        assert self._root is not None
        names = [normalise(name) for name in self._settings.link]
        return _digest(line for name in names for line in _examine_link(self._root, name))

    def _digest(self) -> str:
        if not (self._settings.copy or self._settings.link) or self._root is None:
            return ""
        names = [normalise(name) for name in self._settings.copy]
        files = [file for name in names for file in _walk(self._root, name)]
        if self._last is not None and self._last[0] == files:
            return self._last[1]
        self._last = None
        before, self._digests = self._digests, {}
        contents = [self._content(self._root, file, before) for file in sorted(files)]
        digest = _digest((self._links, *contents))
        if all(file in self._digests for file in files if stat.S_ISREG(file.mode)):
            self._last = (files, digest)
        return digest

    def _content(self, root: str, file: _File, before: dict[_File, str]) -> object:
        """Return name, mode and content of a file; `before` are the known digests."""
        path = os.path.join(root, file.name)
        try:
            if stat.S_ISLNK(file.mode):
                return file.name, file.mode, os.readlink(path)
            if not stat.S_ISREG(file.mode):
                return file.name, file.mode
            content = before.get(file)
            is_old = time.time() - file.changed / 1e9 > _FRESH
            if content is None:
                with open(path, "rb") as opened:
                    content = hashlib.file_digest(opened, "sha256").hexdigest()
            if is_old:
                self._digests[file] = content
        except OSError as error:  # gone or unreadable: copying it reports that
            return file.name, file.mode, error.errno
        return file.name, file.mode, content


def _walk(root: str, name: str) -> Iterator[_File]:
    """Yield a file, or a directory and all below it."""
    path = os.path.join(root, name)
    try:
        file = _file(name, os.lstat(path))
        yield file
        if stat.S_ISDIR(file.mode):
            yield from _below(path, name)
    except OSError:  # gone or unreadable: copying it reports that
        yield _File(name, 0)


def _below(path: str, name: str) -> list[_File]:
    with os.scandir(path) as entries:
        inside = [
            (_file(f"{name}/{entry.name}", entry.stat(follow_symlinks=False)), entry.path)
            for entry in entries
        ]
    files = [file for file, _ in inside]
    for file, where in inside:
        if stat.S_ISDIR(file.mode):
            files += _below(where, file.name)
    return files


def _file(name: str, state: os.stat_result) -> _File:
    return _File(
        name, state.st_mode, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
    )


def _examine_link(root: str, name: str) -> Iterator[_File]:
    """Yield a linked file, or a linked directory and the files at its top."""
    path = os.path.join(root, name)
    try:
        yield _file(name, os.stat(path))
        if os.path.isdir(path):
            with os.scandir(path) as entries:
                inside = islice(entries, _TOP)
                files = [entry for entry in inside if entry.is_file(follow_symlinks=False)]
            for entry in sorted(files, key=lambda entry: entry.name):
                yield _file(entry.name, entry.stat(follow_symlinks=False))
    except OSError:
        yield _File(name, 0)


def _digest(lines: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(f"{line!r}\n".encode())
    return digest.hexdigest()
