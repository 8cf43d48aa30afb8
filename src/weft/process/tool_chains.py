"""The places where people install programs, which a box opens for reading.

A PATH names directories of links and small scripts; the programs themselves lie elsewhere below
home: in the directory of a version manager, of npm, of pipx. This module follows the links.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from weft.process.box import SYSTEM, find_home

_SHARED: Final = {".local", ".config", ".cache"}  # directories of many programs, at depth one
_BIN: Final = {"bin", "sbin", "shims", ".bin"}
_MOST: Final = 5_000  # entries of a directory on the PATH
_LINKS: Final = 16  # in a chain
_LINE: Final = 4096  # bytes of a first line

# Data that tool chains read besides their programs: packages, never credentials.
_DATA: Final = (
    *(".rustup", ".cargo/registry", ".cargo/git", "go/pkg", ".cache/go-build"),
    *(".m2/repository", ".m2/wrapper", ".gradle/caches", ".gradle/wrapper", ".nuget/packages"),
    *(".npm/_cacache", ".cache/yarn", ".cache/pnpm", ".local/share/pnpm/store", ".nvm", ".volta"),
    *(".cache/pip", ".cache/uv", ".local/share/uv", ".local/lib", ".pyenv", ".rbenv", ".asdf"),
    *(".local/share/mise", ".sdkman/candidates", ".ivy2/cache", ".cabal/packages", ".stack"),
    *(".hex/packages", ".mix", ".pub-cache/hosted", ".bundle/cache", ".cache/ms-playwright"),
    *(".cache/puppeteer", ".local/share/fonts", ".fonts"),
)


def find_tool_chains(
    environment: Mapping[str, str],
    programs: Iterable[str] = (),
    more: Iterable[Path] = (),
    hidden: Iterable[Path] = (),
) -> tuple[Path, ...]:
    """Return the directories in which the programs of a PATH, and these programs, really are.

    `more` are directories of the user's checkout that hold programs too, such as a `.venv`. Of a
    place that is `hidden` because of its keys, such as `~/.docker`, only the programs are returned.
    """
    home = find_home(environment)
    entries = [entry for entry in environment.get("PATH", "").split(":") if entry.startswith("/")]
    entries += [str(place / name) for place in more for name in _BIN]
    named = [
        path for program in programs if (path := shutil.which(program, path=":".join(entries)))
    ]
    places = _find(home, tuple(dict.fromkeys(entries)), tuple(named))
    secret = set(hidden)
    kept = [place for place in places if place not in secret]
    within = [Path(entry) for entry in entries if secret & {*Path(entry).parents}]
    inside = [Path(path).parent for path in named if secret & {*Path(path).parents}]
    return tuple(dict.fromkeys([*kept, *within, *inside]))


@lru_cache(maxsize=32)
def _find(home: Path, entries: tuple[str, ...], programs: tuple[str, ...]) -> tuple[Path, ...]:
    places: dict[Path, None] = {}
    for entry in entries:
        if os.path.isdir(entry) and not _is_system(entry):
            places |= dict.fromkeys(_installation(Path(entry), home))
            for link in _links(entry):
                places |= dict.fromkeys(_follow(link, home))
    for program in programs:
        for path in _interpreters(program, entries):
            places |= dict.fromkeys(_own_files(path, home))
            places |= dict.fromkeys(_installation(Path(path).parent, home))
            places |= dict.fromkeys(_follow(path, home))
    places |= dict.fromkeys(home / name for name in _DATA if (home / name).exists())
    return tuple(places)


def list_steps(program: str, path: str) -> list[str]:
    """List the files that the start of a program goes through: links, interpreters, their ends."""
    steps: dict[str, None] = {}
    for started in _interpreters(program, tuple(path.split(":"))):
        link = started
        for _ in range(_LINKS):
            steps[link] = None
            if not os.path.islink(link):
                break
            link = os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))
        steps[os.path.realpath(started)] = None
    return list(steps)


def _links(directory: str) -> Iterator[str]:
    with os.scandir(directory) as listing:
        for _, entry in zip(range(_MOST), listing, strict=False):
            if entry.is_symlink():
                yield entry.path


def _follow(path: str, home: Path) -> Iterator[Path]:
    """Yield the places of each link in a chain, and of the file at its end."""
    for _ in range(_LINKS):
        if not os.path.islink(path):
            break
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        yield from _installation(Path(path).parent, home)
    yield from _installation(Path(os.path.realpath(path)).parent, home)


def _interpreters(program: str, entries: tuple[str, ...]) -> Iterator[str]:
    """Yield a program, the interpreter that its first line names, and the interpreter of that."""
    for _ in range(_LINKS):
        yield program
        try:
            with open(program, "rb") as file:
                line = file.readline(_LINE)
        except OSError:
            return
        words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
        if words and os.path.basename(words[0]) == "env":
            words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        interpreter = shutil.which(words[0], path=":".join(entries)) if words else None
        if interpreter is None:
            return
        program = interpreter


def _own_files(program: str, home: Path) -> Iterator[Path]:
    """Yield a program beside other files of the user's: its directory is not opened with it."""
    for path in {program, os.path.realpath(program)}:
        if home.is_relative_to(os.path.dirname(path)):
            yield Path(path)


def _installation(directory: Path, home: Path) -> Iterator[Path]:
    """Yield the directory that holds a program with the files it needs, outside of the system's.

    A directory that contains home is none.
    """
    if _is_system(str(directory)) or home.is_relative_to(directory):
        return
    if directory.is_relative_to(home):
        parts = directory.relative_to(home).parts
        if parts[0] in _SHARED:
            yield home.joinpath(*parts[: 2 if parts[1:2] == ("bin",) else 3])
            return
        if parts[0].startswith("."):
            yield home / parts[0]
            return
    above = directory.parent
    whole = directory.name in _BIN and above != home and not home.is_relative_to(above)
    yield above if whole else directory


def _is_system(path: str) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in SYSTEM)
