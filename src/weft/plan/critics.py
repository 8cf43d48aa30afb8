"""Critics of a plan that an agent wrote: what it says is compared with the repository.

They are stricter than the compiler, which trusts the author of a plan. Each finding is a problem
with a code, for the agent and for people.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from weft import graph
from weft.formats import dollars, duration, listed
from weft.paths import Index, conflicts, intersects, is_literal, quote
from weft.plan.plan_records import NO_FILES, Compiled, ItemKind, Plan, PlanTask, Problem
from weft.plan.problems import TOP, Problems, shorten

MOST_TASKS: Final = 200
"""The most tasks of a plan that an agent writes; a person reads it before it runs."""

_PLACEHOLDER = re.compile(
    r"(?:^|[\s(\[])(TODO|TBD|TBC|FIXME|XXX|PLACEHOLDER)(?:\s*[:.,)\]…]|\s*$)"
    r"|(\?\?\?|<(?:your|insert|fill in|name of)\b[^>]*>|\blorem ipsum\b)"
    r"|^\W*(\.\.\.|…)\W*$",
    re.MULTILINE,
)


NO_SUCH_PATH: Final = "no-such-path"

_SPELLING: Final = 0.85  # likeness of two names from which on one may be a slip of the other
_DIGITS = re.compile(r"[0-9]+")


class AgentBounds(Struct, frozen=True, kw_only=True):
    """The most that an attempt of an agent may use; None: no bound."""

    seconds: float | None = None
    micro_usd: int | None = None


class RepositoryFacts(Struct, frozen=True, kw_only=True):
    """The facts about a repository that critics compare a plan with."""

    paths: frozenset[str]  # tracked files
    hubs: Mapping[str, float]  # files that many commits change, with their share of the commits
    agents: Mapping[str, AgentBounds]  # by name
    agent: str  # of tasks that name none
    seconds: Mapping[str, float]  # expected for each task of the plan
    new: frozenset[str] = frozenset()  # files to come, which no task need mark `new:`


def list_unmarked(plan: Plan) -> list[str]:
    """List the literal paths that exactly one open task names, and does not mark `new:`."""
    named = Counter(
        path
        for task in plan.tasks
        if not task.settled and task.kind is not ItemKind.STORY
        for path in dict.fromkeys((*(task.files or ()), *task.reads))
        if is_literal(path)
    )
    new = {path for task in plan.tasks for path in task.new}
    return [path for path, tasks in named.items() if tasks == 1 and path not in new]


def warn_of_mistyped(
    plan: Plan, missing: Collection[str], paths: Collection[str]
) -> tuple[Problem, ...]:
    """Warn of paths that the repository does not have, if it has a path that is spelled nearly
    so; a path without a neighbour is taken for a new file."""
    problems = Problems(plan.name)
    names: dict[str, list[str]] = {}
    places: dict[str, list[str]] = {}
    for path in paths:
        directory, _, name = path.rpartition("/")
        names.setdefault(directory, []).append(name)
        places.setdefault(name, []).append(directory)
    for task in plan.tasks:
        for path in dict.fromkeys((*(task.files or ()), *task.reads)):
            near = _find_near(path, names, places) if path in missing else None
            if near is not None and not task.settled and task.kind is not ItemKind.STORY:
                problems.warn(
                    (task.line, task.column),
                    NO_SUCH_PATH,
                    f"{task.id} names {shorten(path)}, which the repository does not have.",
                    f"Did you mean {shorten(near)}? A file that the task creates is marked: "
                    "`new:` instead of `files:`.",
                )
    return problems.sorted()


def _find_near(
    path: str, names: Mapping[str, Sequence[str]], places: Mapping[str, Sequence[str]]
) -> str | None:
    directory, slash, name = path.rpartition("/")
    for close in difflib.get_close_matches(name, names.get(directory, ()), 3, _SPELLING):
        if _DIGITS.sub("", close) != _DIGITS.sub("", name):  # `part2.py` beside `part1.py` is new
            return f"{directory}{slash}{close}"
    for close in difflib.get_close_matches(directory, places.get(name, ()), 1, _SPELLING):
        if _DIGITS.sub("", close) != _DIGITS.sub("", directory):
            return f"{close}/{name}" if close else name
    return None


def criticise(compiled: Compiled, facts: RepositoryFacts) -> tuple[Problem, ...]:
    """Return the findings about a plan, in the order of its file."""
    problems = Problems(compiled.plan.name)
    tasks = compiled.plan.tasks
    if len(tasks) > MOST_TASKS:
        problems.error(
            TOP,
            "too-many-tasks",
            f"The plan has {len(tasks):,} tasks; at most {MOST_TASKS} can be read and run.",
            "Plan larger tasks, or the first part of the goal only.",
        )
        return problems.sorted()
    for task in tasks:
        _find_placeholder(task, problems)
        if not (task.manual or task.settled or task.kind in (ItemKind.STORY, ItemKind.EPIC)):
            _require_files(task, problems)
            _require_check(task, problems)
            _compare_budget(task, facts, problems)
    _compare_paths(tasks, facts, problems)
    _compare_hubs(compiled, facts, problems)
    return problems.sorted()


def _find_placeholder(task: PlanTask, problems: Problems) -> None:
    match = _PLACEHOLDER.search(f"{task.text}\n{task.details}")
    words = next(filter(None, match.groups()), "") if match else ""
    if words:
        problems.warn(
            (task.line, task.column),
            "placeholder",
            f"{task.id} has a placeholder: {shorten(words)!r}.",
            "Say what is to be done; an agent sees the text of its task only.",
        )


def _require_files(task: PlanTask, problems: Problems) -> None:
    if task.files is None:
        problems.warn(
            (task.line, task.column),
            NO_FILES,
            f"{task.id} does not say which files it changes.",
            "Add `<!-- files: … -->` or `<!-- new: … -->` under it.",
        )


def _require_check(task: PlanTask, problems: Problems) -> None:
    if task.check is None and task.claims:
        problems.warn(
            (task.line, task.column),
            "no-check",
            f"{task.id} has no check of its own.",
            "Add `<!-- check: a command that fails now and passes when it is done -->`.",
        )


def _compare_budget(task: PlanTask, facts: RepositoryFacts, problems: Problems) -> None:
    name = task.agent or facts.agent
    bounds = facts.agents.get(name)
    if bounds is None:
        if task.agent is not None:
            problems.error(
                (task.line, task.column),
                "unknown-agent",
                f"{task.id} names the agent {shorten(name)!r}, which has no file here.",
                problems.suggest(name, facts.agents, "Leave out `agent:`."),
            )
        return
    asked = task.budget.seconds if task.budget else None
    seconds = asked or facts.seconds.get(task.id, 0.0)
    if bounds.seconds is not None and seconds > bounds.seconds:
        expected = "asks for" if asked else "is expected to take"
        problems.warn(
            (task.line, task.column),
            "too-large-task",
            f"{task.id} {expected} {duration(seconds)}, and an attempt of {name} is ended after "
            f"{duration(bounds.seconds)}.",
            "Split the task.",
        )
    usd = task.budget.usd if task.budget else None
    if bounds.micro_usd is not None and usd is not None and usd * 1_000_000 > bounds.micro_usd:
        problems.warn(
            (task.line, task.column),
            "too-large-task",
            f"{task.id} asks for ${usd:.2f}, and an attempt of {name} may use "
            f"{dollars(bounds.micro_usd)}.",
            "Split the task.",
        )


def _compare_paths(tasks: Sequence[PlanTask], facts: RepositoryFacts, problems: Problems) -> None:
    there: Index[str] = Index()
    for path in map(quote, facts.paths | facts.new):
        there.add(path, path)
    for task in tasks:
        for path in task.new:
            there.add(path, path)
    for task in tasks:
        missing = [path for path in (*(task.files or ()), *task.reads) if not _exists(path, there)]
        if missing and not task.settled:
            problems.warn(
                (task.line, task.column),
                NO_SUCH_PATH,
                f"{task.id} names {_named(missing)}, which the repository does not have.",
                "Correct the path; a file that the task creates is marked: `<!-- new: path -->`.",
            )
        there_already = [path for path in task.new if path in facts.paths]
        if there_already and not task.settled:
            problems.warn(
                (task.line, task.column),
                "not-new",
                f"{task.id} marks {_named(there_already)} new, which the repository has.",
                "Write it under `files:`.",
            )


def _exists(pattern: str, there: Index[str]) -> bool:
    """Tell whether the pattern matches a path, or names a directory without its slash."""
    return any(
        intersects(pattern, path) or path.startswith(f"{pattern}/")
        for path, _ in there.find(pattern)
    )


def _named(paths: Sequence[str]) -> str:
    return listed([shorten(path) for path in paths], most=3)


def _compare_hubs(compiled: Compiled, facts: RepositoryFacts, problems: Problems) -> None:
    tasks = compiled.plan.tasks
    order = graph.order(compiled.successors)
    for hub, share in facts.hubs.items():
        on_hub = [
            place
            for place in order
            if place < len(tasks)
            and not tasks[place].settled
            and tasks[place].kind is not ItemKind.STORY
            and any(conflicts(claim, hub) for claim in tasks[place].files or ())
        ]
        for first, second in _unordered(on_hub, compiled.successors):
            problems.warn(
                (tasks[second].line, tasks[second].column),
                "shared-hub",
                f"{tasks[first].id} and {tasks[second].id} could run at the same time, and both "
                f"change {shorten(hub)}, which {share:.0%} of the commits change.",
                f"Let one task make all changes of {shorten(hub)}, or order the two with "
                "`<!-- depends: … -->`.",
            )


def _unordered(places: list[int], successors: graph.Successors) -> Iterator[tuple[int, int]]:
    """Yield neighbours among tasks in graph order of which neither waits for the other."""
    for first, second in pairwise(places):
        if not _leads_to(first, second, successors):
            yield min(first, second), max(first, second)


def _leads_to(first: int, second: int, successors: graph.Successors) -> bool:
    seen = {first}
    waiting = [first]
    while waiting:
        for after in successors[waiting.pop()]:
            if after == second:
                return True
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return False
