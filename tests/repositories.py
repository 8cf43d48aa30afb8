"""Real repositories for tests, and what a person or an agent does in them."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from weft import workspace
from weft.workspace import Workspace, branch_ref

AUTHOR = ("A. Gent", "agent@example.org")
DATE = "1700000000 +0000"
TRAILERS = {"Weft-Run": "r", "Weft-Task": "t", "Weft-Attempt": "1"}


def git(directory: Path, *arguments: str, **variables: str) -> str:
    """Run git as a person would."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    who = {"GIT_AUTHOR_NAME": "p", "GIT_AUTHOR_EMAIL": "p@example.org"}
    who |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in who.items()}
    done = subprocess.run(
        ["git", *arguments],
        cwd=directory,
        env={**kept, "GIT_CONFIG_GLOBAL": os.devnull, **who, **variables},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode(errors="surrogateescape")


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def commit_all(root: Path, message: str = "work") -> str:
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD").strip()


def make_repository(root: Path) -> Path:
    """A small repository with one commit."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    write(root, a="a\n", dir__b="b\n", dir__c="c\n", run="#!/bin/sh\n")
    (root / ".gitignore").write_text("*.log\nbuilt/\n.env\nnode_modules/\n")
    commit_all(root, "first")
    return root


def prepare(root: Path, task: str = "t", attempt: int = 1, base: str = "HEAD") -> Workspace:
    return workspace.prepare(root, branch_ref("r", task, attempt), base)


def make_candidate(place: Workspace, message: str = "Do it") -> str:
    made = workspace.candidate(place, message, author=AUTHOR, trailers=TRAILERS, date=DATE)
    assert made is not None
    return made


def content(root: Path, commit: str, path: str) -> str:
    return git(root, "show", f"{commit}:{path}")


def listing(root: Path, commit: str) -> list[str]:
    return git(root, "ls-tree", "-r", "-z", "--name-only", commit).split("\0")[:-1]


def is_kept(root: Path, text: str) -> bool:
    """Whether a file with this text is in some commit that a reference reaches."""
    data = text.encode()
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    return blob in git(root, "rev-list", "--objects", "--glob=refs/*")
