"""The id of a repository: random, kept in the repository's git configuration.

A clone has no id or another id. A copy of all files has the id of the original;
`weft.project.own_repository` tells the two apart.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Final

from weft.git.git_command import check_output, run

_KEY: Final = "weft.repository"
_ID: Final = re.compile(r"[0-9a-f]{32}")
_LINE: Final = re.compile(r"^\s*repository\s*=\s*([0-9a-f]{32})\s*$", re.MULTILINE)


def find_repository_id(common: Path) -> str | None:
    """Return the id in the configuration of a common git directory.

    git is started only if the file is not as git writes it: most commands of weft start here.
    """
    text = (common / "config").read_text(encoding="utf-8", errors="replace")
    if "[weft]" not in text:
        return None
    section = text.rpartition("[weft]")[2].partition("\n[")[0]
    if match := _LINE.search(section):
        return match[1]
    id = run(common, "config", "--file", "config", "--get", _KEY).output.strip()
    return id if _ID.fullmatch(id) else None


def write_repository_id(common: Path, id: str | None = None) -> str:
    """Write an id, by default a new one, into the configuration; return it."""
    id = id or secrets.token_hex(16)
    lock = common / "config.lock"
    locks = () if lock.exists() else (lock,)  # else it is another program's
    check_output(common, "config", "--file", "config", "--replace-all", _KEY, id, locks=locks)
    return id


def find_root_commit(common: Path) -> str:
    """Return the oldest root commit of the branch that is checked out; empty without a commit."""
    roots = run(common, "rev-list", "--max-parents=0", "HEAD", "--").output.split()
    return roots[-1] if roots else ""
