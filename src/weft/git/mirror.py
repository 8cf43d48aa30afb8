"""A bare mirror of a repository on a worker host, and its way home over HTTP.

Only these commands of git may reach a network. The token is not in their arguments, environment or
configuration: git asks a small program for it, which reads a file of the user. Answers of a server
can only add objects, which are checked, and move the references that are named here; redirections,
hooks and submodules are off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft.errors import NoAnswer, StaleFence
from weft.git.git_command import (
    LONG,
    SETTINGS,
    as_variables,
    check_output,
    failure_reason,
    run,
)
from weft.process import Completed

_ASKED: Final = """#!/bin/sh
# git asks for the token of a host of weft.
exec cat "$WEFT_HOST_TOKEN_FILE"
"""
TRANSFER: Final[Mapping[str, str]] = {
    **SETTINGS,
    "transfer.fsckObjects": "true",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "push.recurseSubmodules": "no",
    "protocol.version": "2",
    "remote.pushDefault": "",
}
"""The settings of git for a transfer with another host."""
_FETCH: Final = ("--no-tags", "--no-write-fetch-head", "--quiet")
_SILENT: Final = "60"  # seconds; home examines a large push for a while before it answers
_HOME: Final = "refs/weft/home/HEAD"
_UNUSED: Final = "1.day.ago"
_REFUSED: Final = re.compile(r"returned error: (?:403|404|409)")
_EXISTS: Final = re.compile(r"already exists|stale info|failed to update ref")


class HomeRemote(Struct, frozen=True, kw_only=True):
    url: str  # of the repository
    token_file: Path
    helper: Path  # the program that prints the token

    def variables(self) -> dict[str, str]:
        settings = {
            **TRANSFER,
            "credential.helper": "",
            "credential.username": "weft",  # so git asks for the token alone
            "http.followRedirects": "false",
            "http.lowSpeedLimit": "1",  # bytes in a second; less for a while, and git gives up
            "http.lowSpeedTime": _SILENT,
        }
        return {
            **as_variables(settings),
            "GIT_ALLOW_PROTOCOL": "http:https",
            "GIT_ASKPASS": str(self.helper),
            "WEFT_HOST_TOKEN_FILE": str(self.token_file),
        }


def write_helper(path: Path) -> None:
    """Write the program that git asks for a token."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(".new")
    draft.write_text(_ASKED)
    draft.chmod(0o700)
    draft.replace(path)


def open_mirror(directory: Path) -> None:
    """Make an empty bare repository, unless it is there."""
    if not (directory / "HEAD").is_file():
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        check_output(directory, "init", "--quiet", "--bare", "--template=")


def fetch(mirror: Path, home: HomeRemote, specs: Sequence[str]) -> None:
    """Fetch references and commits; then let HEAD of the mirror be HEAD of home."""
    names = (f"+HEAD:{_HOME}", *specs)
    done = _speak(mirror, home, "fetch", *_FETCH, home.url, *names)
    if done.status != 0:
        raise NoAnswer(f"git could not fetch from {home.url}: {failure_reason(done)}.")
    check_output(mirror, "update-ref", "--no-deref", "HEAD", _HOME, repeat=False)


def try_to_fetch(mirror: Path, home: HomeRemote, commit: str) -> bool:
    """Fetch a commit that home may have deleted; return False if it did not come."""
    return _speak(mirror, home, "fetch", *_FETCH, home.url, commit).status == 0


def push(mirror: Path, home: HomeRemote, commit: str, ref: str) -> None:
    """Create a reference at home. A repetition of a push whose answer was lost succeeds.

    Raise `StaleFence` if home refuses it, `NoAnswer` if home cannot be reached.
    """
    create = f"--force-with-lease={ref}:"  # only if there is no such reference
    done = _speak(
        mirror, home, "push", "--quiet", "--no-verify", create, home.url, f"{commit}:{ref}"
    )
    if done.status == 0:
        return
    if _REFUSED.search(done.errors):
        raise StaleFence(f"Home refused the candidate {commit[:12]}: {failure_reason(done)}.")
    if _EXISTS.search(done.errors) and _find_at_home(mirror, home, ref) == commit:
        return
    raise NoAnswer(f"git could not push to {home.url}: {failure_reason(done)}.")


def list_old_refs(repository: Path, prefix: str, *, before: float) -> set[str]:
    """List the references below a prefix whose commits were made before a time."""
    shown = "--format=%(committerdate:unix) %(refname)"
    lines = check_output(repository, "for-each-ref", shown, prefix).splitlines()
    dated = (line.partition(" ") for line in lines)
    return {ref for date, _, ref in dated if date and int(date) < before}


def collect_garbage(repository: Path) -> None:
    """Pack the objects, and delete those that no reference, worktree or log has reached for a day.

    `git gc` would stop at weft's own lock of it.
    """
    check_output(repository, "pack-refs", "--all", "--prune", repeat=False)
    arguments = ("repack", "-A", "-d", "-q", f"--unpack-unreachable={_UNUSED}")
    check_output(repository, *arguments, seconds=LONG, repeat=False)
    check_output(repository, "prune", f"--expire={_UNUSED}", seconds=LONG, repeat=False)


def _find_at_home(mirror: Path, home: HomeRemote, ref: str) -> str | None:
    lines = _speak(mirror, home, "ls-remote", "--quiet", home.url, ref).output.splitlines()
    return lines[0].split("\t")[0] if lines else None


def _speak(mirror: Path, home: HomeRemote, *arguments: str) -> Completed:
    return run(mirror, *arguments, variables=home.variables(), seconds=LONG, repeat=False)
