"""Git on a repository's objects alone.

A merge must give the same verdict on every host and run no program of the user's. So the gate's git
works in its own git directory. It borrows the repository's objects (and its shallow boundary);
configuration, attributes, refs, grafts, replacements, hooks and merge drivers stay outside. The
result is the same as in a fresh clone. No object is fetched: in a partial clone, a merge that needs
a missing object fails with advice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft import git, process
from weft.errors import InputError
from weft.git.git_command import GitFailed, as_variables, clean_environment, why_failed
from weft.git.objects import Object, identify, pack
from weft.git.scratch import scratch_directory

_PINNED: Final = {
    "core.attributesFile": "/dev/null",  # read from the user's home even without configuration
    "core.useReplaceRefs": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_PARTIAL: Final = (
    "This repository is a partial clone, and weft fetches nothing while agents work; "
    "`git fetch --refetch --no-filter` brings the missing objects."
)
_LOOSE: Final = 100
"""From so many objects on they stay one pack; git itself draws the line there for a push."""
_SECONDS: Final = 600


class MissingCommit(InputError):
    """A commit is not in this repository."""


class Plumbing(Struct, kw_only=True):
    """Git on one repository's objects, for one user at a time."""

    tree: Path  # a working tree that holds attributes at most
    attributes: str | None = None  # the tree whose attributes those are
    environment: Mapping[str, str]
    advice: str = ""  # appended to the message of every failure
    ignores_case: bool  # whether the repository lives where `A` and `a` are one file

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self.attempt(*arguments, stdin=stdin)
        if done.status != 0:
            said = done.errors.strip() or why_failed(done)
            raise self.failure(f"git {arguments[0]} failed: {said}")
        return output(done)

    def failure(self, text: str) -> GitFailed:
        return GitFailed(f"{text} {self.advice}".rstrip())

    def attempt(self, *arguments: str, stdin: bytes = b"") -> process.Completed:
        return git.call(
            self.tree, *arguments, environment=self.environment, seconds=_SECONDS, input=stdin
        )

    def read(self, names: Sequence[bytes]) -> list[Object | None]:
        """The objects of these names, in one go; None for what there is not."""
        if not names:
            return []
        answer = self.run("cat-file", "--batch", "-z", stdin=b"".join(n + b"\0" for n in names))
        found: list[Object | None] = []
        at = 0
        for name in names:
            # The name comes back as it was asked for, newlines and all.
            if answer.startswith(name + b" missing\n", at):
                found.append(None)
                at += len(name) + len(b" missing\n")
                continue
            end = answer.index(b"\n", at)
            _, kind, size = answer[at:end].split(b" ")
            at = end + 1 + int(size)
            found.append(Object(kind.decode(), answer[end + 1 : at]))
            at += 1
        return found

    def read_commits(self, commits: Sequence[str]) -> list[bytes]:
        found = self.read([f"{one}^{{commit}}".encode() for one in commits])
        contents = []
        for name, one in zip(commits, found, strict=True):
            if one is None:
                raise MissingCommit(f"{name} is not a commit of this repository.")
            contents.append(one.content)
        return contents

    def sizes(self, ids: Sequence[str]) -> dict[str, int]:
        if not ids:
            return {}
        asked = "".join(f"{one}\n" for one in ids).encode()
        lines = self.run("cat-file", "--batch-check=%(objectsize)", stdin=asked).splitlines()
        return {one: int(line) for one, line in zip(ids, lines, strict=True) if line.isdigit()}

    def write(self, objects: Mapping[str, Object]) -> None:
        """Write these objects, by id, in one go."""
        if not objects:
            return
        stream = pack(objects.values(), like=next(iter(objects)))
        if len(objects) < _LOOSE:
            self.run("unpack-objects", "-q", stdin=stream)
        else:
            self.run("index-pack", "--stdin", stdin=stream)


@contextmanager
def open_plumbing(repository: Path) -> Iterator[Plumbing]:
    common = git.common_directory(repository)
    settings = git.settings(repository)
    with scratch_directory(common) as place:
        directory, tree = place / "git", place / "tree"
        _make_directory(directory, common, settings)
        tree.mkdir()
        yield Plumbing(
            tree=tree,
            environment=_environment(directory, tree, common / "objects"),
            advice=_PARTIAL if _is_partial(settings) else "",
            ignores_case=settings.get("core.ignorecase") in ("true", "1", "yes", "on"),
        )


def output(done: process.Completed) -> bytes:
    """What the program printed, byte for byte."""
    return done.output.encode(errors="surrogateescape")


def empty_tree(like: str) -> str:
    return identify(Object("tree", b""), like)


def _is_partial(settings: Mapping[str, str]) -> bool:
    return "extensions.partialclone" in settings or any(
        key.endswith(".promisor") for key in settings
    )


def _make_directory(directory: Path, common: Path, settings: Mapping[str, str]) -> None:
    for inner in ("objects", "refs"):
        (directory / inner).mkdir(parents=True)
    (directory / "HEAD").write_text("ref: refs/heads/none\n")
    format = settings.get("extensions.objectformat")
    (directory / "config").write_text(
        "[core]\n\trepositoryFormatVersion = 1\n\tbare = false\n[extensions]\n"
        + (f'\tobjectformat = "{format}"\n' if format else "")
    )
    if (common / "shallow").exists():
        (directory / "shallow").symlink_to(common / "shallow")


def _environment(directory: Path, tree: Path, objects: Path) -> dict[str, str]:
    return {
        **clean_environment(),
        "GIT_DIR": str(directory),
        "GIT_WORK_TREE": str(tree),
        "GIT_OBJECT_DIRECTORY": str(objects),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        **as_variables(_PINNED),
    }
