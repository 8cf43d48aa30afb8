"""`weft doctor`: whether everything weft stands on is in order, and what binds now."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from weft import git
from weft.errors import WeftError
from weft.model import Limit
from weft.operations import project
from weft.operations.project import Project
from weft.store import Store
from weft.store.limits import differences, list_limits


@dataclass(frozen=True, kw_only=True)
class Finding:
    name: str
    good: bool
    text: str


def examine(directory: Path, environment: Mapping[str, str], *, now: float) -> list[Finding]:
    """Every check that can be made; one that fails does not hide the others."""
    return [*_programs(), *_project(directory, environment, now)]


def _programs() -> Iterator[Finding]:
    running = ".".join(str(part) for part in sys.version_info[:3])
    yield Finding(name="python", good=True, text=running)
    try:
        installed = git.version()
    except WeftError as error:
        yield Finding(name="git", good=False, text=str(error))
        return
    text = ".".join(str(part) for part in installed)
    if installed < git.OLDEST:
        needed = ".".join(str(part) for part in git.OLDEST)
        text = f"{text} is too old: weft needs {needed} (merge-tree --write-tree); upgrade git."
    yield Finding(name="git", good=installed >= git.OLDEST, text=text)


def _project(directory: Path, environment: Mapping[str, str], now: float) -> Iterator[Finding]:
    try:
        found = project.find(directory, environment)
    except WeftError as error:
        yield Finding(name="repository", good=False, text=str(error))
        return
    yield Finding(name="repository", good=True, text=str(found.root))
    file = found.store_file
    if file is not None and not file.exists():
        yield Finding(
            name="store", good=True, text=f"{file} (the first command that needs it makes it)"
        )
        return
    try:
        with found.open_store() as store:
            yield from _store(found, store, now)
    except WeftError as error:
        yield Finding(name="store", good=False, text=str(error))


def _store(found: Project, store: Store, now: float) -> Iterator[Finding]:
    damage = store.database.check()
    yield Finding(
        name="store",
        good=damage is None,
        text=damage or f"{store.database.version()}, {store.database.place}",
    )
    limits = list_limits(store, now=now)
    binding = [limit for limit in limits if limit.used >= limit.effective]
    different = differences(store, found.config.stated)
    for difference in different:
        yield Finding(name="limits", good=False, text=difference)
    if not different:
        text = f"{len(limits)} set, {len(binding) or 'none'} reached; this configuration agrees"
        yield Finding(name="limits", good=True, text=text)
    for limit in binding:
        yield Finding(name="binds", good=True, text=_binding(limit))


def _binding(limit: Limit) -> str:
    if limit.capacity == 0:
        return f"{limit.resource} is paused (`weft limits set {limit.resource} N` resumes it)"
    lowered = f", lowered from {limit.capacity} by rate limits"
    return f"{limit.resource} {limit.used}/{limit.effective}" + (
        lowered if limit.effective < limit.capacity else ""
    )
