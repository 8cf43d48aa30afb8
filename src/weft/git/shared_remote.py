"""A git remote that home and its worker hosts reach, for hosts without a server of weft.

Home publishes below `refs/weft/home/<id>/` the references that hosts start from, and fetches the
candidates that hosts push to `refs/weft/candidates/`. git uses the user's own credentials.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft.errors import InputError, NoAnswer
from weft.git.git_command import LONG, as_variables, failure_reason, run
from weft.git.http_backend import CANDIDATES
from weft.git.mirror import TRANSFER
from weft.git.refs import list_refs
from weft.git.remotes import user_variables
from weft.git.repository import NoSuchCommit, get_commit
from weft.process import Completed

_HOMES: Final = "refs/weft/home/"
_HEAD: Final = re.compile(r"refs/weft/home/([0-9a-f]{32})/HEAD")
_PUBLISHED: Final = (
    "refs/heads/weft/",
    "refs/weft/checks/",
    "refs/weft/merges/",
    "refs/weft/work/",
)
_BATCH: Final = 200  # references that a push names


class SharedRemote(Struct, frozen=True, kw_only=True):
    url: str  # or a path
    repository: str  # the id of the repository whose home publishes there

    def __post_init__(self) -> None:
        if self.url.startswith("-") or not self.url.isprintable():
            raise InputError(f"{self.url!r} is no git remote: write an address or a path.")

    def variables(self) -> dict[str, str]:
        return {**user_variables(), **as_variables(TRANSFER)}

    def place(self, ref: str) -> str:
        """Return the name of a reference of home on the remote."""
        return f"{_HOMES}{self.repository}/{ref.removeprefix('refs/')}"

    @property
    def shown(self) -> str:
        """The address without a password."""
        return re.sub(r"//[^/@]*@", "//", self.url)


def list_homes(directory: Path, url: str) -> list[str]:
    """List the ids of the repositories whose homes publish on a remote."""
    remote = SharedRemote(url=url, repository="")
    return [match[1] for ref in _list(directory, remote, _HOMES) if (match := _HEAD.fullmatch(ref))]


class RemotePublisher:
    """The references of home on a shared remote, and the candidates of hosts there."""

    def __init__(self, repository: Path, remote: SharedRemote) -> None:
        self.remote = remote
        self._repository = repository
        self._published: dict[str, str] | None = None  # names on the remote; None: not known yet
        self._fetched: set[str] = set()  # candidates that are still on the remote
        self._turn = threading.Lock()

    def publish(self) -> None:
        """Let the remote have the references of home, and no candidates that home has put away."""
        with self._turn:
            if self._published is None:
                own = self.remote.place("refs/")
                self._published = _list(self._repository, self.remote, own)
            wanted = self._list_own()
            kept = list_refs(self._repository, CANDIDATES) if self._fetched else {}
            gone = [*(self._published.keys() - wanted.keys()), *(self._fetched - kept.keys())]
            changed = sorted(wanted.items() - self._published.items())
            specs = [*(f"+{commit}:{ref}" for ref, commit in changed), *(f":{ref}" for ref in gone)]
            for batch in _batches(specs):
                self._push(batch)
            self._published = wanted
            self._fetched &= kept.keys()

    def _list_own(self) -> dict[str, str]:
        own = list_refs(self._repository, *_PUBLISHED)
        with suppress(NoSuchCommit):
            own["HEAD"] = get_commit(self._repository, "HEAD").id
        return {self.remote.place(ref): commit for ref, commit in own.items()}

    def _push(self, specs: Iterable[str]) -> None:
        url = self.remote.url
        done = _speak(self._repository, self.remote, "push", "--quiet", "--no-verify", url, *specs)
        if done.status != 0:
            self._published = None  # a part may have arrived
            raise NoAnswer(f"git could not push to {self.remote.shown}: {failure_reason(done)}.")

    def fetch_candidates(self) -> None:
        """Fetch the candidates that hosts have pushed."""
        spec = f"+{CANDIDATES}*:{CANDIDATES}*"
        options = ("--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--quiet")
        with self._turn:
            done = _speak(self._repository, self.remote, "fetch", *options, self.remote.url, spec)
            if done.status != 0:
                raise NoAnswer(
                    f"git could not fetch from {self.remote.shown}: {failure_reason(done)}."
                )
            self._fetched |= list_refs(self._repository, CANDIDATES).keys()


def _batches(specs: Iterable[str]) -> Iterator[list[str]]:
    left = iter(specs)
    while batch := list(islice(left, _BATCH)):
        yield batch


def _list(directory: Path, remote: SharedRemote, prefix: str) -> dict[str, str]:
    done = _speak(directory, remote, "ls-remote", "--quiet", remote.url, f"{prefix}*")
    if done.status != 0:
        raise NoAnswer(f"git could not reach {remote.shown}: {failure_reason(done)}.")
    return {
        ref: commit
        for commit, _, ref in (line.partition("\t") for line in done.output.splitlines())
    }


def _speak(directory: Path, remote: SharedRemote, *arguments: str) -> Completed:
    variables = remote.variables()
    return run(directory, *arguments, variables=variables, seconds=LONG, repeat=False)
