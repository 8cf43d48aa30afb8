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
from signal import SIGABRT, SIGSEGV
from typing import Final

from msgspec import Struct

from weft.errors import InputError
from weft.git.disk import scratch_directory
from weft.git.git_command import (
    GitFailed,
    GitView,
    failure,
    failure_reason,
    run_in_view,
    write_git_directory,
)
from weft.git.objects import Object, frame
from weft.git.repository import common_directory, read_settings
from weft.process import Completed

# git reads this file from the user's home even without configuration.
_NO_ATTRIBUTES: Final = {"core.attributesFile": os.devnull}
_PARTIAL: Final = (
    "This repository is a partial clone, and weft fetches nothing while agents work; "
    "`git fetch --refetch --no-filter` brings the missing objects."
)
_CRASHES: Final = frozenset({-SIGABRT, -SIGSEGV})
"""Some sets of renames across file types break an assertion of git 2.39, in `git merge` too."""


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


class ConflictStage(Struct, frozen=True, kw_only=True):
    """A side of a path in conflict: 1 the base, 2 ours, 3 theirs."""

    mode: str
    id: str
    side: int
    path: bytes


class MergeMessage(Struct, frozen=True, kw_only=True):
    kind: str  # git's stable name: `CONFLICT (contents)`
    paths: tuple[bytes, ...]
    text: bytes


class MergeAnswer(Struct, frozen=True, kw_only=True):
    clean: bool
    tree: str  # has conflict markers unless it is clean
    stages: tuple[ConflictStage, ...]
    messages: tuple[MergeMessage, ...]


class MergeRefusal(Struct, frozen=True, kw_only=True):
    """A merge that git refused or over which it crashed."""

    unrelated: bool  # without common history
    text: str


def merge_pair(store: ObjectStore, ours: str, theirs: str) -> MergeAnswer | MergeRefusal:
    """Merge the second commit into the first."""
    done = store.attempt("merge-tree", "--write-tree", "--messages", "-z", ours, theirs)
    if done.status not in (0, 1):
        return _refusal(store, theirs, done)
    fields = iter((output_bytes(done) + b"\0").split(b"\0")[:-1])
    return MergeAnswer(
        clean=done.status == 0,
        tree=next(fields).decode(),
        stages=tuple(_stages(fields)),
        messages=tuple(_messages(fields)),
    )


def _refusal(store: ObjectStore, theirs: str, done: Completed) -> MergeRefusal:
    """Return git's reason to refuse the merge; raise GitFailed if the merge is not the cause."""
    errors = done.errors.strip() or f"it ended with status {done.status}"
    if "unrelated histories" in errors:
        return MergeRefusal(unrelated=True, text="The candidate has no common history with trunk.")
    if done.status in _CRASHES:
        return MergeRefusal(unrelated=False, text=f"git crashed while merging this: {errors}")
    raise store.failure(f"git cannot merge {theirs}: {errors}", errors)


def _stages(fields: Iterator[bytes]) -> Iterator[ConflictStage]:
    while field := next(fields):
        facts, _, path = field.partition(b"\t")
        mode, id, side = facts.decode().split(" ")
        yield ConflictStage(mode=mode, id=id, side=int(side), path=path)


def _messages(fields: Iterator[bytes]) -> Iterator[MergeMessage]:
    # The list ends with an empty field, or with advice on submodules in its place.
    while (count := next(fields)).isdigit():
        paths = tuple(next(fields) for _ in range(int(count)))
        yield MergeMessage(paths=paths, kind=next(fields).decode(), text=next(fields))
