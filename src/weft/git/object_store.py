"""git on the objects of a repository, without its configuration.

A merge must give the same verdict on every host and run no program of the user's. So the gate's git
works in its own git directory. It borrows the repository's objects (and its shallow boundary);
configuration, attributes, refs, grafts, replacements, hooks and merge drivers stay outside. The
result is the same as in a fresh clone. No object is fetched: in a partial clone, a merge that needs
a missing object fails with advice.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft.errors import InputError
from weft.git.disk import scratch_directory
from weft.git.git_command import GitFailed, failure, failure_reason
from weft.git.git_view import GitView, run_in_view, write_git_directory
from weft.git.objects import Object, frame
from weft.git.repository import common_directory, read_settings
from weft.process import Completed

# git reads this file from the user's home even without configuration.
_NO_ATTRIBUTES: Final = {"core.attributesFile": os.devnull}
_PARTIAL: Final = (
    "This repository is a partial clone, and weft fetches nothing while agents work; "
    "`git fetch --refetch --no-filter` brings the missing objects."
)


class MissingCommit(InputError):
    """A commit is not in this repository."""


class ObjectStore(Struct, kw_only=True):
    """git on a repository's objects, for a single user at a time."""

    view: GitView  # its working tree holds only attributes
    attributes: str | None = None  # the tree of those attributes
    advice: str = ""  # appended to the message of every failure
    ignores_case: bool  # on the repository's file system, `A` and `a` are the same file

    def run(self, *arguments: str, input: bytes = b"") -> bytes:
        done = self.attempt(*arguments, input=input)
        if done.status != 0:
            reason = done.errors.strip() or failure_reason(done)
            raise self.failure(f"git {arguments[0]} failed: {reason}", done.errors)
        return output_bytes(done)

    def attempt(self, *arguments: str, input: bytes = b"") -> Completed:
        return run_in_view(self.view, *arguments, input=input)

    def failure(self, text: str, errors: str) -> GitFailed:
        return failure(f"{text} {self.advice}".rstrip(), errors)

    def read(self, names: Sequence[bytes]) -> list[Object | None]:
        """Return the objects of these names; None for a missing object."""
        if not names:
            return []
        answer = self.run("cat-file", "--batch", "-z", input=b"".join(n + b"\0" for n in names))
        objects: list[Object | None] = []
        at = 0
        for name in names:
            # git repeats the name as it is, newlines included.
            if answer.startswith(name + b" missing\n", at):
                objects.append(None)
                at += len(name) + len(b" missing\n")
                continue
            end = answer.index(b"\n", at)
            _, kind, size = answer[at:end].split(b" ")
            at = end + 1 + int(size)
            objects.append(Object(kind.decode(), answer[end + 1 : at]))
            at += 1
        return objects

    def read_commits(self, commits: Sequence[str]) -> list[bytes]:
        contents = []
        objects = self.read([f"{commit}^{{commit}}".encode() for commit in commits])
        for commit, object in zip(commits, objects, strict=True):
            if object is None:
                raise MissingCommit(f"{commit} is not a commit of this repository.")
            contents.append(object.content)
        return contents

    def write(self, objects: Mapping[str, Object]) -> None:
        """Write objects, given by id, as git writes loose objects."""
        for id, object in objects.items():
            place = self.view.objects / id[:2] / id[2:]
            while not place.exists():
                place.parent.mkdir(exist_ok=True)
                with suppress(FileNotFoundError):  # a `git gc` removed the empty directory
                    _write_loose(place, frame(object))
            with suppress(FileNotFoundError):
                os.utime(place)  # a `git gc` deletes old objects first


def _write_loose(place: Path, framed: bytes) -> None:
    number, draft = tempfile.mkstemp(dir=place.parent, prefix="tmp_obj_")
    with os.fdopen(number, "wb") as file:
        file.write(zlib.compress(framed, 1))
    os.chmod(draft, 0o444)
    os.replace(draft, place)


@contextmanager
def open_object_store(repository: Path) -> Iterator[ObjectStore]:
    common = common_directory(repository)
    settings = read_settings(repository)
    with scratch_directory(common) as place:
        directory, tree = place / "git", place / "tree"
        tree.mkdir()
        write_git_directory(directory, settings)
        if (common / "shallow").exists():
            (directory / "shallow").symlink_to(common / "shallow")
        partial = "extensions.partialclone" in settings or any(
            key.endswith(".promisor") for key in settings
        )
        yield ObjectStore(
            view=GitView(
                directory=directory,
                objects=common / "objects",
                tree=tree,
                index=directory / "index",
                settings=_NO_ATTRIBUTES,
            ),
            advice=_PARTIAL if partial else "",
            ignores_case=settings.get("core.ignorecase") in ("true", "1", "yes", "on"),
        )


def output_bytes(done: Completed) -> bytes:
    return done.output.encode(errors="surrogateescape")
