"""The decision whether a task is worth splitting, and the parts it would fall into. Pure.

A task is split where its files fall into groups that rarely change together, and where the parts,
run side by side, end 30 % earlier after their set-up, the merge and the check. Hub files are
changed first, by a part of their own; files that connect the groups are changed last. Files without
a past fall into groups by directory, or, in a single directory, each by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

from msgspec import Struct

from weft.formats import count, duration
from weft.planning import forecast
from weft.planning.forecast import ForecastJob, ForecastWork
from weft.planning.history import LEAST_TOGETHER, History, group_files
from weft.planning.predictor import Mirrors

LEAST_FILES: Final = 3
MOST_PARTS: Final = 4
LEAST_SECONDS: Final = 300.0
"""A shorter task is not worth splitting."""

LEAST_GAIN: Final = 0.3
"""The share of the time that splitting has to save."""

SECONDS_PER_FILE: Final = 150.0
"""The time of a file's change where no records tell."""

SET_UP_SECONDS: Final = 30.0
MERGE_SECONDS: Final = 30.0
_CLOSENESS: Final = 0.25  # share of commits from which on two files belong together


_FILES_PER_CONNECTOR: Final = 4  # of four files, one at most connects the others


class PartRole(StrEnum):
    FIRST = "first"  # hub files, on which the other parts build
    GROUP = "group"
    LAST = "last"  # files that connect the groups


class Part(Struct, frozen=True, kw_only=True):
    role: PartRole
    files: tuple[str, ...]
    seconds: float


class SplitAdvice(Struct, frozen=True, kw_only=True):
    task: str
    pays: bool
    reason: str  # a clause, for people
    parts: tuple[Part, ...] = ()
    before: float = 0.0  # seconds until the task has landed, whole
    after: float = 0.0  # the same, in parts


class SplitCosts(Struct, frozen=True, kw_only=True):
    """The circumstances of a run that decide whether a split pays."""

    slots: int
    check: float  # seconds of the check of a candidate
    seconds: Callable[[int], float]  # expected for a task of so many files


class KnownFiles(Struct, frozen=True, kw_only=True):
    """The knowledge about a repository's files that groups follow from."""

    history: History
    mirrors: Mirrors
    imports: Mapping[str, tuple[str, ...]]


def advise(task: str, files: Sequence[str], known: KnownFiles, costs: SplitCosts) -> SplitAdvice:
    """Decide whether a task that changes these files is worth splitting."""
    if len(files) < LEAST_FILES:
        number = count(len(files), "file")
        return _refuse(
            task, f"it has {number}, and a task with fewer than {LEAST_FILES} is not split"
        )
    hubs = tuple(file for file in files if known.history.is_hub(file))
    groups, wiring = _divide([file for file in files if file not in hubs], known)
    if len(groups) < 2:
        return _refuse(task, "nothing is known that divides its files into two groups")
    if hubs and wiring and costs.seconds(len(hubs)) < LEAST_SECONDS:
        hubs, wiring = (), (*wiring, *hubs)
    ends = bool(hubs) + bool(wiring)
    choices = [
        _forecast(task, hubs, _join(groups, number), wiring, costs)
        for number in range(2, min(MOST_PARTS - ends, len(groups)) + 1)
    ]
    return min(choices, key=lambda advice: (not advice.pays, advice.after))


def judge_parts(
    task: str,
    parts: Sequence[Part],
    order: Sequence[Sequence[int]],
    *,
    files: int,
    costs: SplitCosts,
) -> SplitAdvice:
    """Decide whether these parts pay; `order[i]` lists the parts that wait for part i."""
    whole = ForecastJob(name=task, seconds=SET_UP_SECONDS + costs.seconds(files), tail=costs.check)
    before = forecast.forecast(ForecastWork(jobs=(whole,), successors=[[]]), costs.slots).seconds
    jobs = [
        ForecastJob(name=str(number), seconds=SET_UP_SECONDS + part.seconds)
        for number, part in enumerate(parts)
    ]
    merge = ForecastJob(name=task, seconds=MERGE_SECONDS + costs.check, runs=False)
    work = ForecastWork(
        jobs=(*jobs, merge),
        successors=[*([*following, len(parts)] for following in order), []],
    )
    after = forecast.forecast(work, costs.slots).seconds
    reason = _find_obstacle(costs.seconds(files), before, after)
    return SplitAdvice(
        task=task,
        pays=not reason,
        reason=reason or f"{duration(after)} instead of {duration(before)}",
        parts=tuple(parts),
        before=before,
        after=after,
    )


def _find_obstacle(whole: float, before: float, after: float) -> str:
    if whole < LEAST_SECONDS:
        return (
            f"it takes {duration(whole)}, and less than {duration(LEAST_SECONDS)} is not worth "
            "splitting"
        )
    if after > before * (1 - LEAST_GAIN):
        return (
            f"it would take {duration(after)} instead of {duration(before)}, and less than "
            f"{LEAST_GAIN:.0%} is not worth it"
        )
    return ""


def _refuse(task: str, reason: str) -> SplitAdvice:
    return SplitAdvice(task=task, pays=False, reason=reason)


def _forecast(
    task: str,
    hubs: Sequence[str],
    groups: Sequence[Sequence[str]],
    wiring: Sequence[str],
    costs: SplitCosts,
) -> SplitAdvice:
    roles = [(PartRole.FIRST, hubs), *((PartRole.GROUP, group) for group in groups)]
    roles.append((PartRole.LAST, wiring))
    parts = [
        Part(role=role, files=tuple(files), seconds=costs.seconds(len(files)))
        for role, files in roles
        if files
    ]
    total = sum(len(part.files) for part in parts)
    return judge_parts(task, parts, order_parts(parts), files=total, costs=costs)


def order_parts(parts: Sequence[Part]) -> list[list[int]]:
    """List for each part the parts that wait for it."""
    rank = {PartRole.FIRST: 0, PartRole.GROUP: 1, PartRole.LAST: 2}
    ranks = [rank[part.role] for part in parts]
    return [[place for place, behind in enumerate(ranks) if behind > before] for before in ranks]


def _join(groups: Sequence[tuple[str, ...]], number: int) -> list[tuple[str, ...]]:
    """Join groups until so many are left, of about the same size."""
    joined: list[tuple[str, ...]] = [() for _ in range(number)]
    for group in sorted(groups, key=len, reverse=True):
        smallest = min(range(number), key=lambda place: len(joined[place]))
        joined[smallest] += group
    return joined


def _divide(
    files: Sequence[str], known: KnownFiles
) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return groups of files that rarely change together, and the files that connect them."""
    group = partial(_group, known=known)
    groups = group(files)
    if len(groups) < 2 and all(_is_young(file, known.history) for file in files):
        group = partial(_group, known=known, by_directory=False)
        groups = group(files)
    if len(groups) >= 2:
        wiring = _find_importers(groups, known.imports)
    else:
        wiring = _find_connectors(files, known)
    rest = [file for file in files if file not in wiring]
    divided = group(rest) if wiring else groups
    return (divided, wiring) if len(divided) >= 2 else (groups, ())


def _find_importers(
    groups: Sequence[tuple[str, ...]], imports: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """List the files that import files of two other groups or more."""
    group_of = {file: number for number, group in enumerate(groups) for file in group}
    return tuple(
        file
        for file, own in group_of.items()
        if len({group_of[path] for path in imports.get(file, ()) if path in group_of} - {own}) >= 2
    )


def _find_connectors(files: Sequence[str], known: KnownFiles) -> tuple[str, ...]:
    """List the few files without which the others fall into groups, the closest to all first."""
    history = known.history
    close = {
        file: sum(history.bind(file, path) >= _CLOSENESS for path in files if path != file)
        for file in files
    }
    ranked = sorted(files, key=lambda file: -close[file])
    for number in range(1, len(files) // _FILES_PER_CONNECTOR + 1):
        rest = [file for file in files if file not in ranked[:number]]
        if len(_group(rest, known)) >= 2:
            return tuple(ranked[:number])
    return ()


def _group(
    files: Sequence[str], known: KnownFiles, *, by_directory: bool = True
) -> list[tuple[str, ...]]:
    """Group files by history; a test goes with its source, and a file without a past with the
    files of its directory."""
    groups = [set(group) for group in group_files(known.history, files, closeness=_CLOSENESS)]
    for file in files:
        companions = {*known.mirrors.list_tests(file), *known.mirrors.list_sources(file)}
        if by_directory and not companions & set(files) and _is_young(file, known.history):
            companions = {path for path in files if _directory(path) == _directory(file)}
        near = [group for group in groups if file in group or group & companions]
        if len(near) > 1:
            groups = [group for group in groups if group not in near] + [set().union(*near)]
    place = {file: number for number, file in enumerate(files)}
    ordered = [tuple(sorted(group, key=place.__getitem__)) for group in groups]
    return sorted(ordered, key=lambda group: place[group[0]])


def _is_young(file: str, history: History) -> bool:
    number = history.find(file)
    return number is None or len(history.changing(number)) < LEAST_TOGETHER


def _directory(path: str) -> str:
    return path.rpartition("/")[0]
