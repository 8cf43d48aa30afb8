"""What is the user's in a repository, seen without weft: by the file system and git alone."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from repositories import git

_OURS = ("refs/heads/weft/", "refs/heads/weft-work/", "refs/weft/")
_GIVEN = {"plan.md", "prd.json"}  # the plan handed to `weft run`, which weft marks
_SETTINGS = ("HEAD", "ORIG_HEAD", "index", "description", "hooks", "info")
_ID = "weft.repository="  # the setting that weft adds


def walk(root: Path) -> dict[str, str]:
    """The checkout, index, stash, branches, their logs, settings and hooks, each by a digest."""
    seen = {}
    for directory, below, names in os.walk(root):
        if Path(directory) == root:
            below.remove(".git")
        for name in (*below, *names):
            path = Path(directory, name)
            if str(path.relative_to(root)) not in _GIVEN:
                seen[f"file {path.relative_to(root)}"] = _digest(path)
    common = root / ".git"
    for place in (common / name for name in _SETTINGS):
        for path in (place, *sorted(place.rglob("*"))) if place.is_dir() else (place,):
            if os.path.lexists(path):
                seen[f"git {path.relative_to(common)}"] = _digest(path)
    settings = git(root, "config", "--file", ".git/config", "--list").splitlines()
    seen["git config"] = "\n".join(line for line in settings if not line.startswith(_ID))
    refs = git(root, "for-each-ref", "--format=%(refname) %(objectname) %(symref)")
    for line in refs.splitlines():
        name = line.split()[0]
        if not name.startswith(_OURS):
            seen[f"ref {name}"] = line
            log = common / "logs" / name
            seen[f"log {name}"] = _digest(log) if log.exists() else ""
    seen["log HEAD"] = _digest(common / "logs" / "HEAD")
    return seen


def _digest(path: Path) -> str:
    status = path.lstat()
    kind = f"{stat.filemode(status.st_mode)} {status.st_uid}"
    if stat.S_ISLNK(status.st_mode):
        return f"{kind} {os.readlink(path)}"
    if stat.S_ISREG(status.st_mode):
        return f"{kind} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return kind
