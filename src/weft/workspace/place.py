"""The directory that holds the working trees of a repository's workspaces.

Tools that skip dot directories (mocha, many globbers) miss the files of a checkout below `.git/` or
`~/.cache/`. So the directory lies beside the repository: `../<repository>.weft`, below the same
directories as the checkout and mostly on its file system. Where the path has a dot directory, or
the directory above cannot be written, it is `~/weft-workspaces/<repository>-<digest>`, and as the
last resort a part of the git directory. `root` of `[workspace]` names another directory.

A file in the directory names the repository that owns it. weft puts no file into a directory of
another owner, and so a copied repository never touches the workspaces of its original.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from weft.errors import WorkspaceError
from weft.git.disk import delete_tree, write_whole

_OWNER: Final = "about.txt"
_ABOUT: Final = """{home}
weft keeps the workspaces of this repository here. `weft clean` there removes the unused.
"""
_OWN: Final = (_OWNER, ".gitignore")
_TRASH: Final = "trash"


def open_place(common: Path, root: str) -> Path | None:
    """Make the directory for working trees; return None if only the git directory is left."""
    place, home = find_place(common, root), read_home(common)
    if place is None or find_owner(place) == home:
        return place
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(place / _OWNER, _ABOUT.format(home=json.dumps(home)))
    if any((above / ".git").exists() for above in place.parents):
        # Another repository is checked out around it; its `git status` shall not list it.
        write_whole(place / ".gitignore", "*\n")
    return place


def find_place(common: Path, root: str) -> Path | None:
    """Find the directory for working trees, which may not exist yet; None: the git directory.

    `root` is that of `[workspace]`, or "".
    """
    home = read_home(common)
    if root:
        return _configured_place(common, home, root)
    return next((place for place in _list_places(common, home) if _fits(place, home)), None)


def read_home(common: Path) -> str:
    """Return a git directory by inode and path, which tells a copy from its original."""
    return f"{common.stat().st_ino} {common}"


def _list_places(common: Path, home: str) -> Iterator[Path]:
    repository = _repository(common)
    if not is_hidden(repository.parent):
        yield repository.with_name(f"{repository.name}.weft")
        # An earlier repository of this path may have left its workspaces.
        yield repository.with_name(f"{_name(common, home)}.weft")
    user = os.environ.get("HOME", "")
    if user.startswith("/") and not is_hidden(Path(user)) and os.path.isdir(user):
        yield Path(user, "weft-workspaces", _name(common, home))


def _configured_place(common: Path, home: str, root: str) -> Path:
    repository = _repository(common)
    place = Path(os.path.normpath(repository / Path(root).expanduser())) / _name(common, home)
    if place.is_relative_to(repository):
        raise WorkspaceError(
            f"root = {root!r} of [workspace] in weft.toml lies inside the repository; name a "
            "directory outside."
        )
    if not _fits(place, home):
        raise WorkspaceError(
            f"weft cannot keep workspaces in {place}: it cannot be written, or another program "
            "uses it. Change root of [workspace] in weft.toml."
        )
    return place


def _repository(common: Path) -> Path:
    return common.parent if common.name == ".git" else common


def _name(common: Path, home: str) -> str:
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
    return f"{_repository(common).name.lstrip('.')}-{digest}"


def is_hidden(path: Path) -> bool:
    """Tell whether tools that skip dot directories miss the files below a path."""
    return any(part.startswith(".") for part in path.parts)


def _fits(place: Path, home: str) -> bool:
    """Tell whether a directory is this repository's own, or may become so."""
    if not os.path.lexists(place):
        above = next(path for path in place.parents if path.exists())
        return above.is_dir() and os.access(above, os.W_OK | os.X_OK)
    if place.is_symlink() or not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return False
    owner = find_owner(place)
    return owner == home or (_is_unused(place) and (owner is None or is_gone(owner)))


def find_owner(place: Path) -> str | None:
    """Return the home of the repository that keeps its working trees in a directory."""
    try:
        with (place / _OWNER).open(encoding="utf-8") as file:
            owner = json.loads(file.readline(1 << 16))
    except (OSError, ValueError):
        return None
    return str(owner)


def is_gone(home: str) -> bool:
    """Tell whether a git directory is no longer at its path: it was moved or deleted."""
    inode, _, path = home.partition(" ")
    try:
        return str(os.stat(path).st_ino) != inode
    except OSError:
        return True


def find_moved(tree: Path, home: str, common: Path) -> Path | None:
    """Find a working tree that was made for `home`, a git directory which has become `common`.

    A copy of a repository has no working trees: those are still its original's.
    """
    if not is_gone(home):
        return None
    before = Path(home.partition(" ")[2])
    with_parent = Path(os.path.normpath(common / os.path.relpath(tree, before)))
    return next(
        (path for path in (tree, with_parent) if find_owner(path.parent) == home and path.is_dir()),
        None,
    )


def drop_unused(place: Path) -> None:
    """Remove a directory for working trees that holds none; call it while registering."""
    if find_owner(place) is None or not _is_unused(place):
        return
    try:
        for name in sorted(os.listdir(place), reverse=True):  # the owner last
            delete_tree(place / name) if name.startswith(_TRASH) else (place / name).unlink()
        place.rmdir()
        if place.parent.name == "weft-workspaces":
            place.parent.rmdir()
    except (OSError, WorkspaceError):
        return  # another process is emptying its trash


def _is_unused(place: Path) -> bool:
    # write_whole leaves a temporary file if it is killed.
    started = (_TRASH, *(f".{name}." for name in _OWN))
    return all(name in _OWN or name.startswith(started) for name in os.listdir(place))
