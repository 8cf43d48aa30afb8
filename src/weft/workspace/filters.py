"""Files that git stores in another form than in a working tree: LFS, and filters that weft refuses.

weft's own git runs no program that a configuration names. LFS is the exception: its clean and
smudge commands are the user's own `git-lfs`, named here. It finds objects in the repository and
fetches none.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from weft import git
from weft.errors import InputError
from weft.git.git_command import GitView, answer, join, split, through

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
        # A missing object stays a pointer: nothing is fetched, whatever .lfsconfig says.
        "lfs.url": "none://none",
        "lfs.skipdownloaderrors": "true",
        "lfs.transfer.maxretries": "1",
    }


def find_raw(view: GitView, tree: str, paths: Iterable[str]) -> list[str]:
    """Return the paths that the view's index keeps in LFS but the tree holds as plain files."""
    asked = list(paths)
    if not asked:
        return []
    told = split(
        through(view, "check-attr", "-z", "--cached", "--stdin", "filter", input=join(asked))
    )
    kept = [path for path, value in zip(told[::3], told[2::3], strict=True) if value == _LFS]
    return [path for path in kept if not _is_pointer(view, tree, path)]


def _is_pointer(view: GitView, tree: str, path: str) -> bool:
    size = int(through(view, "cat-file", "-s", f"{tree}:{path}"))
    if size > 1024:
        return False
    return size == 0 or through(view, "cat-file", "blob", f"{tree}:{path}").startswith(_POINTER)


def refuse_filters(root: Path) -> None:
    """Raise `InputError` if files of a checkout go through a filter that weft cannot run."""
    if git.find_top_level(root) is None:
        return
    files = git.tracked_files(root)
    told = split(answer(root, "check-attr", "-z", "--stdin", "filter", input=join(files)))
    used = {
        value: path
        for path, value in zip(told[::3], told[2::3], strict=True)
        if value not in _NO_FILTER
    }
    if _LFS in used and shutil.which("git-lfs") is None:
        raise InputError(
            f"{used[_LFS]} is kept in LFS, and there is no git-lfs here: agents would see and land "
            "it wrongly. Install git-lfs, then run `git lfs pull`."
        )
    settings = git.settings(root)
    for name, path in used.items():
        programs = [f"filter.{name}.{what}" for what in ("clean", "smudge", "process")]
        if name != _LFS and any(settings.get(key) for key in programs):
            raise InputError(
                f"{path} goes through the filter {name!r} of your git, which weft does not run: "
                "agents would see and land it wrongly. Take the filter out of .gitattributes and "
                "commit, or do this work without weft."
            )
