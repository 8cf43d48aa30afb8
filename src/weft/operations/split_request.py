"""The split of a task by a planner: its request, and the judgement of its answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft import plan
from weft.agents.prompt import write_fenced
from weft.formats import listed
from weft.operations.planner import (
    JudgedPlan,
    LastPlan,
    compile_answer,
    list_findings,
    submit_round,
    write_request,
)
from weft.operations.repository_map import write_map
from weft.paths import intersects
from weft.plan.plan_records import Compiled, EdgeReason, PlanTask, Problem
from weft.plan.problems import TOP, Problems, shorten, sort_by_place
from weft.plan.split_writer import NewPart
from weft.planning.splitting import MOST_PARTS, Part, PartRole, judge_parts
from weft.project.project import Project
from weft.runs.plan_splitting import SplitTask

_OF_PLANS_ONLY = frozenset({"no-check", "held-back"})
"""Problems that a part cannot have: it takes over the check of its task."""


def request_split(project: Project, split: SplitTask, planner: str, last: LastPlan | None) -> int:
    """Submit the task of a round; return its number."""
    with project.open_store() as store:
        goal = _describe(split)
        text = write_request(goal, write_map(project, store, split.task.text), last)
        title = f"Split {split.task.id}: {split.task.title}"
        return submit_round(project, store, text, title, planner, last)


def _describe(split: SplitTask) -> str:
    groups = [f"- {part.role}: {listed(part.files, most=30)}" for part in split.advice.parts]
    return "\n\n".join(
        [
            "Split this task of a plan into parts that agents do at the same time:",
            write_fenced(f"{split.task.text}\n{split.task.details}".strip()),
            "Its files fall into these groups, which rarely change together:",
            "\n".join(groups),
            f"Write a plan with one parallel phase of two to {MOST_PARTS} tasks, the parts. Each "
            "file belongs to one part. Parts that build on another part say so with `depends:`; "
            "files that many parts need are changed first, files that connect them last.",
        ]
    )


def judge_split(project: Project, split: SplitTask, answer: str, name: str) -> JudgedPlan:
    """Compile the parts in an answer; the problems say why they are no split that pays."""
    compiled = compile_answer(project, answer, name)
    if compiled is None:
        return JudgedPlan(plan=None)
    text, checked = compiled
    findings = [
        problem
        for problem in list_findings(project, checked, split.files)
        if problem.code not in _OF_PLANS_ONLY
    ]
    problems = sort_by_place([*findings, *_compare(split, checked.compiled, name)])
    return JudgedPlan(plan=text, problems=problems, tasks=len(checked.compiled.plan.tasks))


def _compare(split: SplitTask, compiled: Compiled, name: str) -> tuple[Problem, ...]:
    problems = Problems(name)
    tasks = compiled.plan.tasks
    if not 2 <= len(tasks) <= MOST_PARTS:
        problems.error(
            TOP,
            "number-of-parts",
            f"There are {len(tasks)} parts; two to {MOST_PARTS} are possible.",
            "Join or divide parts.",
        )
        return problems.sorted()
    for task in tasks:
        _compare_files(split, task, problems)
    missing = [file for file in split.files if not _covers(tasks, file)]
    if missing:
        problems.error(
            TOP,
            "missing-files",
            f"No part changes {listed([shorten(file) for file in missing])}.",
            "Add each of them to a part.",
        )
    parts = [_as_part(task, split) for task in tasks]
    verdict = judge_parts(
        split.task.id, parts, _order(compiled), files=len(split.files), costs=split.costs
    )
    if not verdict.pays:
        problems.error(TOP, "split-does-not-pay", f"The split does not pay: {verdict.reason}.")
    return problems.sorted()


def _compare_files(split: SplitTask, task: PlanTask, problems: Problems) -> None:
    own = (*split.files, *(split.task.files or ()))
    outside = [
        file
        for file in task.files or ("**",)
        if file not in task.new and not any(intersects(file, mine) for mine in own)
    ]
    if outside:
        problems.error(
            (task.line, task.column),
            "outside-story",
            f"{task.id} changes {listed([shorten(file) for file in outside])}, which the task that "
            "is split does not change.",
            "Leave it out.",
        )


def _covers(tasks: Sequence[PlanTask], file: str) -> bool:
    return any(intersects(pattern, file) for task in tasks for pattern in task.files or ())


def _as_part(task: PlanTask, split: SplitTask) -> Part:
    files = tuple(file for file in split.files if _covers([task], file)) + tuple(
        file for file in task.new if file not in split.files
    )
    return Part(role=PartRole.GROUP, files=files, seconds=split.costs.seconds(max(1, len(files))))


def _order(compiled: Compiled) -> list[list[int]]:
    """List for each part the parts that wait for it."""
    place = {task.id: number for number, task in enumerate(compiled.plan.tasks)}
    following: list[list[int]] = [[] for _ in place]
    for before, after in _needs(compiled):
        following[place[before]].append(place[after])
    return following


def _needs(compiled: Compiled) -> Iterator[tuple[str, str]]:
    for edge in compiled.edges:
        if edge.why is not EdgeReason.OVERLAP:
            yield edge.before, edge.after
    for barrier in compiled.barriers:
        for before in barrier.before:
            yield from ((before, after) for after in barrier.after)


def read_parts(plan_text: str, name: str) -> list[NewPart]:
    """Return the subtasks of a planner's split, as they are written into the plan."""
    compiled = plan.compile(plan.read(name, plan_text.encode()).plan)
    place = {task.id: number for number, task in enumerate(compiled.plan.tasks)}
    needs = set(_needs(compiled))
    return [
        NewPart(
            text=task.text,
            files=task.files or (),
            new=task.new,
            after=tuple(place[before] for before, after in sorted(needs) if after == task.id),
            check=task.check or "",
            details=task.details,
        )
        for task in compiled.plan.tasks
    ]
