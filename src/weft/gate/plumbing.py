"""Git over a repository's objects and nothing else of it.

A merge must give the same verdict on every host and run nothing of the user's. So the gate's
git works in a git directory of its own: the repository lends its objects (and where its history
is cut off); configuration, attributes, refs, grafts, replacements, hooks and merge drivers stay
outside. What is left is git's own verdict, as in a fresh clone. In a partial clone the settings
needed to fetch a missing object come along.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft import git, process
from weft.errors import InputError, WeftError
from weft.gate.objects import Object, identify, pack

_PINNED: Final = {
    "core.attributesFile": "/dev/null",  # read from the user's home even without configuration
    "core.useReplaceRefs": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_TRANSPORT: Final = (
    "remote.",
    "url.",
    "http.",
    "credential.",
    "ssh.",
    "protocol.",
    "core.sshcommand",
)
_LOOSE: Final = 100
"""From so many objects on they stay one pack; git itself draws the line there for a push."""
_SECONDS: Final = 600


class GitFailed(WeftError):
    """Git failed on the gate's behalf."""


class MissingCommit(InputError):
    """A commit is not in this repository."""


class Plumbing(Struct, kw_only=True):
    """Git on one repository's objects, for one user at a time."""

    tree: Path  # a working tree that holds attributes at most
    attributes: str | None = None  # the tree whose attributes those are
    environment: Mapping[str, str]
    ignores_case: bool  # whether the repository lives where `A` and `a` are one file

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self.attempt(*arguments, stdin=stdin)
        if done.status != 0:
            raise GitFailed(f"git {arguments[0]} failed: {done.errors.strip()}")
        return output(done)

    def attempt(self, *arguments: str, stdin: bytes = b"") -> process.Finished:
        return process.run(
            ("git", *arguments),
            directory=self.tree,
            environment=self.environment,
            seconds=_SECONDS,
            input=stdin,
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
    settings = _settings(repository)
    with tempfile.TemporaryDirectory(prefix="weft-gate-") as name:
        directory, tree = Path(name, "git"), Path(name, "tree")
        _make_directory(directory, common, settings)
        tree.mkdir()
        yield Plumbing(
            tree=tree,
            environment=_environment(directory, tree, common / "objects", settings),
            ignores_case=settings.get("core.ignorecase", ["false"])[-1]
            in ("true", "1", "yes", "on"),
        )


def output(done: process.Finished) -> bytes:
    """What the program printed, byte for byte."""
    return done.output.encode(errors="surrogateescape")


def empty_tree(like: str) -> str:
    return identify(Object("tree", b""), like)


def _settings(repository: Path) -> dict[str, list[str]]:
    """Every setting in force in the repository; of several values the last one counts."""
    done = process.run(
        ("git", "config", "--list", "-z"), directory=repository, environment=_without_git()
    )
    if done.status != 0:
        raise GitFailed(f"git cannot read the configuration of {repository}: {done.errors.strip()}")
    settings: dict[str, list[str]] = {}
    for record in done.output.split("\0")[:-1]:
        key, _, value = record.partition("\n")
        settings.setdefault(key, []).append(value)
    return settings


def _make_directory(directory: Path, common: Path, settings: Mapping[str, list[str]]) -> None:
    for inner in ("objects", "refs"):
        (directory / inner).mkdir(parents=True)
    (directory / "HEAD").write_text("ref: refs/heads/none\n")
    extensions = [
        f'\t{key.partition(".")[2]} = "{settings[key][-1]}"\n'
        for key in ("extensions.objectformat", "extensions.partialclone")
        if key in settings
    ]
    (directory / "config").write_text(
        "[core]\n\trepositoryFormatVersion = 1\n\tbare = false\n[extensions]\n"
        + "".join(extensions)
    )
    if (common / "shallow").exists():
        (directory / "shallow").symlink_to(common / "shallow")


def _environment(
    directory: Path, tree: Path, objects: Path, settings: Mapping[str, list[str]]
) -> dict[str, str]:
    return {
        **_without_git(),
        "LC_ALL": "C",
        "GIT_DIR": str(directory),
        "GIT_WORK_TREE": str(tree),
        "GIT_OBJECT_DIRECTORY": str(objects),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        **_configuration([*_PINNED.items(), *_transport(settings)]),
    }


def _transport(settings: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    if "extensions.partialclone" in settings or any(key.endswith(".promisor") for key in settings):
        for key, values in settings.items():
            if key.startswith(_TRANSPORT):
                yield from ((key, value) for value in values)


def _configuration(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    held = list(pairs)
    variables = {"GIT_CONFIG_COUNT": str(len(held))}
    for number, (key, value) in enumerate(held):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


def _without_git() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
