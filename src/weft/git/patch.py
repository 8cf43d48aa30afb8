"""What differs between two commits, as a patch that others can apply."""

from __future__ import annotations

import os
from pathlib import Path

from weft.git.git_command import answer


def diff(repository: Path, old: str, new: str) -> bytes:
    """A patch from one commit to another, whatever the user has set for `git diff`."""
    shown = ("--no-ext-diff", "--no-textconv", "--no-color", "--binary", "-M", "-p", "-r")
    return os.fsencode(answer(repository, "diff-tree", *shown, old, new, "--"))
