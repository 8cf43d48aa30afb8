"""A separate git directory for a sandboxed agent, which cannot write into the repository's.

The quarantine borrows the repository's objects and starts with a copy of its references. All that
the agent's git writes (objects, references, index, logs, settings) stays in it. A candidate is made
from the files of the workspace and needs none of that. Before the workspace is released, weft
imports the agent's own commits and staged files: weft's git packs them, hashes and checks every
object anew, and refuses them if an object they need is missing.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from weft import git
from weft.errors import WeftError
from weft.git.disk import write_whole
from weft.git.git_command import LONG, check_output, split_nul, write_git_directory
from weft.workspace import inspection, worktree
from weft.workspace.workspace_records import Workspace

log = logging.getLogger(__name__)

# No settings with credentials (http, credential), and none that git directories must not share.
_SECTIONS: Final = frozenset(
    {"user", "author", "committer", "core", "diff", "merge", "i18n", "remote", "branch", "alias"}
)
_LEFT_OUT: Final = ("core.worktree", "core.bare", "core.sshcommand", "core.askpass")
_PASSWORD: Final = re.compile(r"(://)[^/@\s]*@")
_REF: Final = re.compile(r"refs/[A-Za-z0-9._%+/-]+")

SHARED: Final = ("objects", "hooks", "modules", "lfs")
"""Parts of the repository's git directory that an agent in quarantine still reads."""


def make_quarantine(workspace: Workspace) -> Path:
    """Give the agent of a workspace its own git directory; return its path."""
    directory, common = workspace.slot.quarantine, workspace.common
    if os.path.lexists(directory):
        worktree.discard(workspace.slot.pool, directory)
    write_git_directory(directory, workspace.settings)
    write_whole(directory / "config", _config(_settings(workspace)))
    (directory / "objects" / "info").mkdir(parents=True)
    (directory / "objects" / "pack").mkdir()
    write_whole(directory / "objects" / "info" / "alternates", f"{common / 'objects'}\n")
    refs = check_output(common, "for-each-ref", "--format=%(objectname) %(refname)")
    write_whole(directory / "packed-refs", refs)
    write_whole(directory / "HEAD", f"{workspace.base}\n")
    copies = {
        workspace.entry / "index": directory / "index",
        common / "shallow": directory / "shallow",
        workspace.slot.view / "info" / "exclude": directory / "info" / "exclude",
        workspace.slot.view / "info" / "attributes": directory / "info" / "attributes",
        workspace.slot.view / "info" / "sparse-checkout": directory / "info" / "sparse-checkout",
    }
    for source, copy in copies.items():
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(source, copy)  # with its modification time: see snapshot
    write_whole(workspace.path / ".git", f"gitdir: {directory}\n")
    return directory


def _settings(workspace: Workspace) -> list[tuple[str, str]]:
    listed = check_output(
        workspace.common,
        *("config", "--local", "--includes", "--list", "-z"),
        variables={"GIT_CONFIG_COUNT": "0"},
    )
    pairs = [entry.partition("\n")[::2] for entry in split_nul(listed)]
    carried = [
        (key, _PASSWORD.sub(r"\1", value))
        for key, value in pairs
        if key.partition(".")[0] in _SECTIONS and key not in _LEFT_OUT
    ]
    hooks = [] if any(key == "core.hookspath" for key, _ in carried) else [_hooks(workspace)]
    # A signature needs keys that a sandbox hides.
    return [*hooks, *carried, *workspace.settings.items(), ("commit.gpgsign", "false")]


def _hooks(workspace: Workspace) -> tuple[str, str]:
    return "core.hookspath", str(workspace.common / "hooks")


def _config(settings: Iterable[tuple[str, str]]) -> str:
    """Format settings as a configuration file, in their order."""
    pairs = list(settings)
    version = "1" if any(key.startswith("extensions.") for key, _ in pairs) else "0"
    first = [("core.repositoryformatversion", version), ("core.bare", "false")]
    return "".join(
        f"{_section(key)}\n\t{key.rpartition('.')[2]} = {_quote(value)}\n"
        for key, value in [*pairs, *first]
        if key.count(".") and not key.startswith("extensions.worktreeconfig")
    )


def _section(key: str) -> str:
    section, _, rest = key.partition(".")
    inner = rest.rpartition(".")[0]
    return f"[{section} {_quote(inner)}]" if inner else f"[{section}]"


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def find_tip(workspace: Workspace, ref: str) -> str | None:
    """Find the commit of a reference that the agent's git wrote."""
    directory = workspace.slot.quarantine
    if not directory.is_dir() or not _REF.fullmatch(ref) or ".." in ref:
        return None
    return inspection.read_file(directory / ref, 100).decode(errors="replace").strip() or None


def import_objects(workspace: Workspace, ids: Iterable[str]) -> None:
    """Copy the agent's own commits and staged files into the repository, if they are whole."""
    objects = workspace.slot.quarantine / "objects"
    if not objects.is_dir():
        return
    try:
        if not _has_objects(workspace, objects):
            return
        (objects / "info" / "alternates").unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=workspace.slot.directory) as place:
            _import(workspace, objects, ids, Path(place))
    except (WeftError, OSError) as error:
        log.warning(
            "the commits and staged files of %s are incomplete: %s", workspace.branch, error
        )


def _has_objects(workspace: Workspace, objects: Path) -> bool:
    """Tell whether a quarantine contains objects; raise if git could hang on its files."""
    size = 0
    has_objects = False
    for entry in inspection.walk(objects):
        if entry.is_dir(follow_symlinks=False):
            continue
        if not entry.is_file(follow_symlinks=False):
            raise WeftError(f"{entry.path} is no file.")
        size += entry.stat(follow_symlinks=False).st_size
        has_objects = has_objects or os.path.basename(os.path.dirname(entry.path)) != "info"
    inspection.refuse_without_room(workspace, size)
    return has_objects


def _import(workspace: Workspace, objects: Path, ids: Iterable[str], place: Path) -> None:
    reading = _environment(workspace, objects, alternates=workspace.common / "objects")
    commits = _commits(workspace, reading, ids)
    reached = check_output(
        workspace.common,
        *("rev-list", "--objects", "--no-object-names", "--stdin"),
        input="".join(f"{commit}\n" for commit in [*commits, f"^{workspace.base}"]).encode(),
        variables=reading,
        seconds=LONG,
    ).split()
    wanted = {*reached, *_staged(workspace, reading, place)}
    packed = check_output(
        workspace.common,
        *("pack-objects", "--local", "--non-empty", "-q", str(place / "pack")),
        input="".join(f"{id}\n" for id in sorted(wanted)).encode(),
        variables=reading,
        seconds=LONG,
    ).split()
    for name in packed:
        pack = place / f"pack-{name}.pack"
        pack.with_suffix(".idx").unlink()
        # Hashes every object anew, and refuses objects that name missing objects.
        check_output(
            workspace.common,
            *("index-pack", "--strict", str(pack)),
            variables=_environment(workspace, workspace.common / "objects"),
            seconds=LONG,
        )
        for suffix in (".pack", ".idx"):
            _put(pack.with_suffix(suffix), workspace.common / "objects" / "pack")


def _environment(
    workspace: Workspace, objects: Path, alternates: Path | None = None
) -> Mapping[str, str]:
    view = workspace.view()
    # Both files describe objects, and git would trust them without reading the objects.
    trusting = {"core.commitGraph": "false", "core.multiPackIndex": "false"}
    view = replace(view, objects=objects, settings={**view.settings, **trusting})
    more = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": _quote(str(alternates))} if alternates else {}
    return {**view.environment(), **more}


def _commits(workspace: Workspace, reading: Mapping[str, str], ids: Iterable[str]) -> list[str]:
    asked = sorted(ids)
    lines = check_output(
        workspace.common,
        *("cat-file", "--batch-check=%(objectname) %(objecttype)"),
        input="".join(f"{id}\n" for id in asked).encode(),
        variables=reading,
    ).splitlines()
    return [id for id, line in zip(asked, lines, strict=True) if line.endswith(" commit")]


def _staged(workspace: Workspace, reading: Mapping[str, str], place: Path) -> Iterator[str]:
    """List the blobs of the agent's index that exist."""
    index = workspace.admin / "index"
    if not index.is_file() or index.is_symlink():
        return
    shutil.copyfile(index, place / "index")
    with contextlib.suppress(git.GitFailed):  # a broken index stages nothing
        listed = check_output(
            workspace.common,
            *("ls-files", "-z", "--stage"),
            variables={**reading, "GIT_INDEX_FILE": str(place / "index")},
        )
        blobs = {entry.split()[1] for entry in split_nul(listed) if not entry.startswith("160000")}
        lines = check_output(
            workspace.common,
            *("cat-file", "--batch-check=%(objectname)"),
            input="".join(f"{id}\n" for id in sorted(blobs)).encode(),
            variables=reading,
        ).splitlines()
        yield from itertools.filterfalse(lambda line: line.endswith(" missing"), lines)


def _put(file: Path, directory: Path) -> None:
    """Copy a file into a directory, where it appears whole; the two may be on different disks."""
    directory.mkdir(exist_ok=True)
    number, name = tempfile.mkstemp(dir=directory, prefix="tmp_weft_")
    os.close(number)
    try:
        shutil.copyfile(file, name)
        os.chmod(name, stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
        os.replace(name, directory / file.name)
    except BaseException:
        os.unlink(name)
        raise
