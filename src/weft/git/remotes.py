"""Remotes of a repository, and pushes to them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from weft.git.git_command import LONG, GitFailed, run
from weft.git.repository import read_settings

_PROTOCOLS: Final = "https:http:ssh:git:file"
_TELLING: Final = ("!", "fatal:", "error:", "remote:", "ssh:")
_OWN: Final = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_SSL_CAINFO")


def list_remotes(repository: Path) -> dict[str, str]:
    """Return the remotes with their addresses."""
    settings = read_settings(repository)
    return {
        key.removeprefix("remote.").removesuffix(".url"): url
        for key, url in settings.items()
        if key.startswith("remote.") and key.endswith(".url")
    }


def find_remote_of(repository: Path, branch: str) -> str | None:
    """Return the remote of a branch, or `origin`, or the only remote."""
    remotes = list_remotes(repository)
    chosen = read_settings(repository).get(f"branch.{branch}.remote")
    if chosen in remotes:
        return chosen
    if "origin" in remotes:
        return "origin"
    return next(iter(remotes)) if len(remotes) == 1 else None


def user_variables() -> dict[str, str]:
    """Return the variables with which git reaches a remote as the user does."""
    own = {name: os.environ[name] for name in _OWN if name in os.environ}
    return {**own, "GIT_ALLOW_PROTOCOL": _PROTOCOLS}


def push(repository: Path, remote: str, commit: str, branch: str) -> None:
    """Push a commit to a branch of a remote, forward only, with the user's own credentials.

    Hooks of the repository do not run: an agent may have written them.
    """
    done = run(
        repository,
        *("push", "--quiet", remote, f"{commit}:refs/heads/{branch}"),
        variables=user_variables(),
        seconds=LONG,
        repeat=False,
    )
    if done.status != 0:
        lines = [line.strip() for line in done.errors.splitlines()]
        telling = [line for line in lines if line.startswith(_TELLING)] or lines[:1]
        raise GitFailed(f"git push to {remote} failed: {' '.join(telling[:3])}.")
