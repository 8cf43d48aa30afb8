"""Running git so that neither the surroundings nor an agent decide what happens.

Every command gets an environment without the caller's `GIT_*`, no housekeeping, no hooks, no file
system monitor and no way to a remote: a missing object stays missing. Where an agent has been at
work a `View` is used: a git directory of weft's own over the repository's objects, whose
configuration is only what weft puts there, so that no filter, monitor or hook an agent set up can
run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from weft import process
from weft.errors import WeftError

SECONDS: Final = 60.0
LONG: Final = 1800.0
"""For commands that touch every file of a working tree."""

_SETTINGS: Final[Mapping[str, str]] = {
    "gc.auto": "0",
    "maintenance.auto": "false",
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "submodule.recurse": "false",
    "log.showSignature": "false",  # otherwise `git log` runs gpg.program
}

# No object is fetched because it is missing: any remote's address may be an agent's, and may name
# a program. git before 2.39.4 does not know the first variable; for it no protocol is left.
_OFFLINE: Final[Mapping[str, str]] = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}

# How git takes stock of files: an agent's settings must not make it look away.
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
    """git refused a command."""


class View(Struct, frozen=True, kw_only=True):
    """A working tree as seen through a git directory nobody but weft writes."""

    directory: Path  # weft's own git directory: no refs, no objects, no hooks
    objects: Path  # the repository's objects
    tree: Path  # the working tree
    index: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    holds: tuple[int, ...] = ()  # locks that git keeps while it works there, even if weft dies

    def environment(self) -> dict[str, str]:
        return {
            "GIT_DIR": str(self.directory),
            "GIT_OBJECT_DIRECTORY": str(self.objects),
            "GIT_WORK_TREE": str(self.tree),
            "GIT_INDEX_FILE": str(self.index),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            **as_variables({**_SETTINGS, **self.settings, **_STRICT}),
        }


def run(
    directory: Path,
    *arguments: str,
    input: bytes = b"",
    variables: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
    holds: Sequence[int] = (),
) -> process.Finished:
    """Run git in a directory, whatever it answers."""
    return process.run(
        ("git", *arguments),
        directory=directory,
        environment={**clean_environment(), **(variables or {})},
        input=input,
        seconds=seconds,
        holds=holds,
    )


def answer(
    directory: Path,
    *arguments: str,
    input: bytes = b"",
    variables: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
    holds: Sequence[int] = (),
) -> str:
    """What git answers; raises when it refuses."""
    done = run(
        directory, *arguments, input=input, variables=variables, seconds=seconds, holds=holds
    )
    if done.status != 0:
        raise GitFailed(f"git {arguments[0]} failed: {first_line(done.errors)}.")
    return done.output


def through(view: View, *arguments: str, input: bytes = b"", seconds: float = LONG) -> str:
    """What git answers about a view's working tree; raises when it refuses."""
    return answer(
        view.tree,
        *arguments,
        input=input,
        variables=view.environment(),
        seconds=seconds,
        holds=view.holds,
    )


def split(output: str) -> list[str]:
    """The parts of NUL-terminated output."""
    return output.split("\0")[:-1]


def join(paths: Iterable[str]) -> bytes:
    """Paths as NUL-terminated input; bytes that are no text come back as they were."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


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
        **as_variables(_SETTINGS),
    }


def as_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings as environment, which outranks every configuration file."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables
