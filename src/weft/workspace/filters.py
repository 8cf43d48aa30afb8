"""Files that git stores in another form than in a working tree: LFS, and filters that weft refuses.

weft's own git runs no program that a configuration names. LFS is the exception: its clean and
smudge commands are the user's own `git-lfs`, named here. It finds objects in the repository and
fetches none.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from weft import git
from weft.errors import InputError
from weft.git.git_command import GitView, check_output, join_nul, split_nul, view_output

_LFS: Final = "lfs"
_POINTER: Final = "version https://git-lfs.github.com/spec/v1\n"
_NO_FILTER: Final = frozenset({"unspecified", "unset", "set"})


def lfs_settings(common: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with which weft's git reads and writes LFS files; without git-lfs, git
    refuses to write them."""
    if shutil.which("git-lfs") is None:
        return {"filter.lfs.required": "true", "filter.lfs.clean": "false"}
    return {
        "filter.lfs.required": "true",
        "filter.lfs.process": "git-lfs filter-process",
        "filter.lfs.clean": "git-lfs clean -- %f",
        "filter.lfs.smudge": "git-lfs smudge -- %f",
        "lfs.storage": str(common / settings.get("lfs.storage", "lfs")),
        # A missing object stays a pointer: git-lfs fetches none, even if .lfsconfig asks for it.
        "lfs.url": "none://none",
        "lfs.skipdownloaderrors": "true",
        "lfs.transfer.maxretries": "1",
    }


def find_raw(view: GitView, tree: str, paths: Iterable[str]) -> list[str]:
    """Return the paths that the view's index keeps in LFS but the tree holds as plain files."""
    asked = list(paths)
    if not asked:
        return []
    query = ("check-attr", "-z", "--cached", "--stdin", "filter")
    filters = _read_filters(view_output(view, *query, input=join_nul(asked)))
    return [path for path, name in filters if name == _LFS and not _is_pointer(view, tree, path)]


def _read_filters(answer: str) -> Iterator[tuple[str, str]]:
    """Yield the paths and filters of an answer of `git check-attr`."""
    fields = split_nul(answer)
    return zip(fields[::3], fields[2::3], strict=True)


def _is_pointer(view: GitView, tree: str, path: str) -> bool:
    size = int(view_output(view, "cat-file", "-s", f"{tree}:{path}"))
    if size > 1024:
        return False
    return size == 0 or view_output(view, "cat-file", "blob", f"{tree}:{path}").startswith(_POINTER)


def refuse_filters(root: Path) -> None:
    """Raise `InputError` if files of a checkout go through a filter that weft cannot run."""
    if git.find_top_level(root) is None:
        return
    files = git.list_tracked_files(root)
    answer = check_output(root, "check-attr", "-z", "--stdin", "filter", input=join_nul(files))
    used = {name: path for path, name in _read_filters(answer) if name not in _NO_FILTER}
    if _LFS in used and shutil.which("git-lfs") is None:
        raise InputError(
            f"{used[_LFS]} is kept in LFS, and there is no git-lfs here: agents would see and land "
            "it wrongly. Install git-lfs, then run `git lfs pull`."
        )
    settings = git.read_settings(root)
    for name, path in used.items():
        programs = [f"filter.{name}.{command}" for command in ("clean", "smudge", "process")]
        if name != _LFS and any(settings.get(key) for key in programs):
            raise InputError(
                f"{path} goes through the filter {name!r} of your git, which weft does not run: "
                "agents would see and land it wrongly. Take the filter out of .gitattributes and "
                "commit, or do this work without weft."
            )
