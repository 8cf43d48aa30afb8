"""Commands of git that neither the environment nor an agent can influence.

Every command gets an environment without the caller's `GIT_*`, no housekeeping, no hooks, no file
system monitor and no access to a remote: a missing object stays missing. In directories where an
agent has worked, git runs through a `GitView`.

A git that dies (killed for lack of memory, say), or whose object directory a `git gc` removed just
before it wrote there, is started again after a pause. That is safe for commands that only read,
that write objects, or that replace a single index. Other commands pass `repeat=False`
and repair a half-done change themselves (`update_refs`, `worktree.make`).
"""

from __future__ import annotations

import errno
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from signal import SIGABRT, SIGFPE, SIGILL, SIGSEGV, SIGTRAP
from typing import Final, TypedDict, TypeVar, Unpack

from msgspec import Struct, field

from weft import process
from weft.errors import WeftError
from weft.git.disk import write_whole
from weft.process import Breaker, Completed

T = TypeVar("T")
log = logging.getLogger(__name__)

SECONDS: Final = 60.0
LONG: Final = 600.0  # for commands that touch every file of a working tree

_PAUSES: Final = (0.1, 0.3, 0.7, 1.5, 3.0)
"""Seconds before a git that died is started again. Memory is seldom short for longer."""

_OWN_FAULTS: Final = frozenset({SIGABRT, SIGFPE, SIGILL, SIGSEGV, SIGTRAP})
"""Signals that a defect in git itself causes: a second try would end the same way."""

_STARVED: Final = re.compile(
    r"out of memory|cannot allocate memory|resource temporarily unavailable|died of signal"
    r"|unable to (?:write|create temporary) file.*: no such file or directory",
    re.IGNORECASE,
)

_GONE: Final = re.compile(
    r"not a valid (?:object|commit)|(?:bad|invalid|nonexistent|missing) (?:\w+ )?object"
    r"|missing (?:blob|tree|commit)|unable to read (?:tree|[0-9a-f]{40})"
    r"|could not read [0-9a-f]{40}"
    r"|failed to (?:read|traverse|unpack tree)|could not parse|not something we can merge",
    re.IGNORECASE,
)
_GC_TRIES: Final = 30
_GC_PAUSE: Final = 0.1

SETTINGS: Final[Mapping[str, str]] = {
    "gc.auto": "0",
    "maintenance.auto": "false",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "submodule.recurse": "false",
    "log.showSignature": "false",  # otherwise `git log` runs gpg.program
    "i18n.commitEncoding": "UTF-8",
}

# Never fetch a missing object: an agent may have written the remote's address, and an address may
# name a program. git before 2.39.4 ignores the first variable, so every protocol is forbidden too.
_OFFLINE: Final[Mapping[str, str]] = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
# An agent's settings must not hide changes of files from git.
_STRICT: Final[Mapping[str, str]] = {
    "core.trustctime": "true",
    "core.checkStat": "default",
    "core.ignoreStat": "false",
    "core.splitIndex": "false",
    "core.safecrlf": "false",
    "core.quotePath": "false",
    "index.sparse": "false",
    "advice.updateSparsePath": "false",
}


class GitFailed(WeftError):
    """A git command failed."""


class ObjectsGone(GitFailed):
    """An object is missing: a `git gc --prune=now` may have removed it before a reference reached
    it, and making it again helps."""


class CommandOptions(TypedDict, total=False):
    """Optional arguments of `run`."""

    input: bytes
    variables: Mapping[str, str]  # added to the clean environment
    seconds: float
    holds: Sequence[int]  # locks that git keeps while it works, even if weft dies
    locks: Sequence[Path]  # files that only this command can have left when it died
    repeat: bool  # after git died
    breaker: process.Breaker | None


def run(
    directory: Path,
    *arguments: str,
    input: bytes = b"",
    variables: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
    holds: Sequence[int] = (),
    locks: Sequence[Path] = (),
    repeat: bool = True,
    breaker: process.Breaker | None = None,
) -> process.Completed:
    """Run git in a directory and return its answer, also a failure (see `CommandOptions`)."""
    environment = {**clean_environment(), **(variables or {})}
    for last in tries() if repeat else (True,):
        try:
            done = process.run(
                ("git", *arguments),
                directory=directory,
                environment=environment,
                input=input,
                seconds=seconds,
                holds=holds,
                breaker=breaker,
            )
        except OSError as error:
            if last or error.errno not in (errno.EAGAIN, errno.ENOMEM):
                raise
            log.warning("could not start git %s: %s", arguments[0], error)
            continue
        if last or not has_died(done):
            break
        log.warning("git %s died: %s", arguments[0], failure_reason(done))
        for lock in locks:
            lock.unlink(missing_ok=True)
    return done


def check_output(directory: Path, *arguments: str, **options: Unpack[CommandOptions]) -> str:
    """Run git in a directory and return its output; raise GitFailed if it fails."""
    done = run(directory, *arguments, **options)
    if done.status != 0:
        raise failure(f"git {arguments[0]} failed: {failure_reason(done)}.", done.errors)
    return done.output


def failure(text: str, errors: str) -> GitFailed:
    """Return the failure of a git that printed these errors."""
    return (ObjectsGone if _GONE.search(errors) else GitFailed)(text)


def outlast_gc(make: Callable[[], T]) -> T:
    """Call until the objects that it makes outlast every `git gc --prune=now` of the user."""
    for _ in range(_GC_TRIES):
        try:
            return make()
        except ObjectsGone as error:
            log.info("making objects again that are gone: %s", error)
            time.sleep(_GC_PAUSE)
    return make()


def tries() -> Iterator[bool]:
    """Yield before each try whether it is the last; pause between tries."""
    for pause in _PAUSES:
        yield False
        time.sleep(pause)
    yield True


def has_died(done: process.Completed) -> bool:
    """Tell whether git, or a program that it started, was killed or ran out of memory."""
    if done.status < 0:
        return -done.status not in _OWN_FAULTS
    return done.status > 129 or (done.status != 0 and _STARVED.search(done.errors) is not None)


def split_nul(output: str) -> list[str]:
    return output.split("\0")[:-1]


def join_nul(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def failure_reason(done: process.Completed) -> str:
    if done.status < 0 and not done.errors.strip():
        return f"it was ended by signal {-done.status}"
    return first_line(done.errors)


def first_line(errors: str) -> str:
    first = (errors.strip().splitlines() or ["git failed"])[0]
    return first.removeprefix("fatal: ").removeprefix("error: ").rstrip(".")


def clean_environment() -> dict[str, str]:
    """Return the environment without variables that point git at another repository or remote."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {
        **kept,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        **_OFFLINE,
        **as_variables(SETTINGS),
    }


def as_variables(
    settings: Mapping[str, str], repeated: Sequence[tuple[str, str]] = ()
) -> dict[str, str]:
    """Return settings as environment variables, which outrank every configuration file.

    `repeated` are settings with several values, of which git reads the last first.
    """
    pairs = [*settings.items(), *repeated]
    variables = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


class GitView(Struct, frozen=True, kw_only=True):
    """A working tree seen through a git directory of weft's own, over the repository's objects.

    Only weft writes the configuration there, so no filter, monitor or hook of others runs.
    """

    directory: Path  # weft's own git directory: no refs, no objects, no hooks
    objects: Path  # the repository's objects
    tree: Path  # the working tree
    index: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    holds: tuple[int, ...] = ()  # locks that git keeps while it works, even if weft dies
    breaker: Breaker | None = None  # ends git commands of this view

    def environment(self) -> dict[str, str]:
        return {
            "GIT_DIR": str(self.directory),
            "GIT_OBJECT_DIRECTORY": str(self.objects),
            "GIT_WORK_TREE": str(self.tree),
            "GIT_INDEX_FILE": str(self.index),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            **as_variables({**SETTINGS, **self.settings, **_STRICT}),
        }


def view_output(view: GitView, *arguments: str, input: bytes = b"") -> str:
    """Run git on a view's working tree and return its output; raise GitFailed if it fails."""
    return check_output(
        view.tree,
        *arguments,
        input=input,
        variables=view.environment(),
        seconds=LONG,
        holds=view.holds,
        locks=[view.index.with_name(f"{view.index.name}.lock")],
        breaker=view.breaker,
    )


def run_in_view(view: GitView, *arguments: str, input: bytes = b"") -> Completed:
    return run(view.tree, *arguments, input=input, variables=view.environment(), seconds=LONG)


def write_git_directory(directory: Path, settings: Mapping[str, str]) -> None:
    """Make a directory that git accepts as its own, without refs, objects or hooks."""
    (directory / "info").mkdir(parents=True, exist_ok=True)
    (directory / "refs").mkdir(exist_ok=True)
    format = settings.get("extensions.objectformat")
    version = f"1\n[extensions]\n\tobjectformat = {format}\n" if format else "0\n"
    write_whole(
        directory / "config", f"[core]\n\tbare = false\n\trepositoryformatversion = {version}"
    )
    write_whole(directory / "HEAD", "ref: refs/heads/none\n")
