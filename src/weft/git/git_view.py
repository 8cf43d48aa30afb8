"""Working trees seen through a git directory of weft's own, over the repository's objects.

Only weft writes the configuration there, so no filter, monitor or hook of an agent or user runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from weft.git.disk import write_whole
from weft.git.git_command import LONG, SETTINGS, as_variables, check_output, run
from weft.process import Breaker, Completed

# An agent's settings must not hide changes of files from git.
_STRICT: Final[Mapping[str, str]] = {
    "core.trustctime": "true",
    "core.checkStat": "default",
    "core.ignoreStat": "false",
    "core.splitIndex": "false",
    "core.safecrlf": "false",
    "core.quotePath": "false",
    "index.sparse": "false",
    "advice.updateSparsePath": "false",
}


class GitView(Struct, frozen=True, kw_only=True):
    directory: Path  # weft's own git directory: no refs, no objects, no hooks
    objects: Path  # the repository's objects
    tree: Path  # the working tree
    index: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    holds: tuple[int, ...] = ()  # locks that git keeps while it works, even if weft dies
    breaker: Breaker | None = None  # ends git commands of this view

    def environment(self) -> dict[str, str]:
        return {
            "GIT_DIR": str(self.directory),
            "GIT_OBJECT_DIRECTORY": str(self.objects),
            "GIT_WORK_TREE": str(self.tree),
            "GIT_INDEX_FILE": str(self.index),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            **as_variables({**SETTINGS, **self.settings, **_STRICT}),
        }


def view_output(view: GitView, *arguments: str, input: bytes = b"") -> str:
    """Run git on a view's working tree and return its output; raise GitFailed if it fails."""
    return check_output(
        view.tree,
        *arguments,
        input=input,
        variables=view.environment(),
        seconds=LONG,
        holds=view.holds,
        locks=[view.index.with_name(f"{view.index.name}.lock")],
        breaker=view.breaker,
    )


def run_in_view(view: GitView, *arguments: str, input: bytes = b"") -> Completed:
    return run(view.tree, *arguments, input=input, variables=view.environment(), seconds=LONG)


def write_git_directory(directory: Path, settings: Mapping[str, str]) -> None:
    """Make a directory that git accepts as its own, without refs, objects or hooks."""
    (directory / "info").mkdir(parents=True, exist_ok=True)
    (directory / "refs").mkdir(exist_ok=True)
    format = settings.get("extensions.objectformat")
    version = f"1\n[extensions]\n\tobjectformat = {format}\n" if format else "0\n"
    write_whole(
        directory / "config", f"[core]\n\tbare = false\n\trepositoryformatversion = {version}"
    )
    write_whole(directory / "HEAD", "ref: refs/heads/none\n")
