"""Stories and their subtasks: the attributes that a subtask takes over, and `part-of` in plan.md.

A story stands for its subtasks: it comes after them, holds all their files, and lands them
together.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from weft.plan.annotations import Notes
from weft.plan.plan_records import ItemKind, Plan, PlanTask
from weft.plan.problems import Problems
from weft.teams.team_text import Strategy, Team


def make_story(story: PlanTask, parts: Sequence[PlanTask]) -> PlanTask:
    """Add the files of the subtasks to the story, which holds them after the subtasks."""
    files: tuple[str, ...] | None = None
    if story.files is not None or all(part.files is not None for part in parts):
        patterns = [story.files or (), *(part.files or () for part in parts)]
        files = tuple(dict.fromkeys(file for each in patterns for file in each))
    return replace(story, kind=ItemKind.STORY, files=files)


def make_part(part: PlanTask, story: PlanTask) -> PlanTask:
    """Give a subtask the text of its story, and the attributes that it has not itself."""
    context = f"Part of {story.id} {story.text}\n{story.details}".strip()
    return replace(
        part,
        kind=ItemKind.SUBTASK,
        parent=story.id,
        phase=story.phase,
        details=f"{part.details}\n\n{context}".strip(),
        stages=part.stages or story.stages,
        depends_phases=(*part.depends_phases, *story.depends_phases),
        priority=story.priority,
        criteria=tuple(f"{story.id} as a whole: {each}" for each in story.criteria),
        agent=part.agent or story.agent,
        needs_labels=tuple(dict.fromkeys((*part.needs_labels, *story.needs_labels))),
        # The command passes once all subtasks are merged, which is when it is run.
        check=part.check or story.check,
        # It cannot leave the files of its story, if those are known.
        files=story.files if part.files is None else part.files,
        status=story.status if story.settled else part.status,
    )


def join_parts(tasks: Sequence[PlanTask], problems: Problems) -> tuple[PlanTask, ...]:
    """Make stories of the tasks that other tasks of a plan.md are part of, and put their parts
    before them."""
    by_id = {task.id: task for task in tasks}
    parts: dict[str, list[PlanTask]] = {}
    for task in tasks:
        if task.parent is not None and (fault := _find_fault(task, by_id)):
            problems.error(
                (task.line, task.column),
                "bad-part",
                f"{task.id} cannot be a part of {task.parent}: {fault}.",
                "Name a task of the same phase that is not itself a part.",
            )
            by_id[task.id] = replace(task, parent=None)
        elif task.parent is not None:
            parts.setdefault(task.parent, []).append(task)
    if not parts:
        return tuple(by_id[task.id] for task in tasks)
    joined: list[PlanTask] = []
    for task in tasks:
        own = [make_part(part, task) for part in parts.get(task.id, ())]
        if own:
            joined += [*own, make_story(task, own)]
        elif by_id[task.id].parent is None:
            joined.append(by_id[task.id])
    return tuple(joined)


def _find_fault(part: PlanTask, by_id: dict[str, PlanTask]) -> str:
    assert part.parent is not None
    story = by_id[part.parent]
    if story.id == part.id:
        return "that is the task itself"
    if story.parent is not None:
        return f"that is a part of {story.parent}"
    if story.manual or part.manual:
        return "a person's step has no parts and is none"
    return "" if story.phase == part.phase else "it is in another phase"


def complete_team(notes: Notes, problems: Problems) -> None:
    """Move `judge:` and `risky:` into the team of a task, or report why they mean nothing."""
    judge, risky = notes.values.pop("judge", None), notes.values.pop("risky", False)
    team: Team | None = notes.values.get("team")
    if judge is not None and (team is None or team.strategy is Strategy.HEDGE):
        problems.error(
            notes.first["judge"].place,
            "team-without-choice",
            "`judge:` names the agent that compares the candidates of a team; this task has none.",
            "Write `team: best-of 3; judge: NAME`, or remove `judge:`.",
        )
    elif judge is not None and team is not None:
        notes.values["team"] = replace(team, judge=judge)
    if risky and (team is None or team.strategy is not Strategy.HEDGE):
        problems.warn(
            notes.first["risky"].place,
            "risky-without-hedge",
            "`risky:` starts all entrants of a hedge at once; this task has no hedge.",
            "Write `team: hedge; risky: yes`, or remove `risky:`.",
        )
    elif risky and team is not None:
        notes.values["team"] = replace(team, risky=True)


def report_teams(plan: Plan, problems: Problems) -> None:
    """Report teams on tasks that cannot have one."""
    parents = {task.parent for task in plan.tasks}
    for task in plan.tasks:
        if task.team is not None and not task.settled:
            _report_team(task, task.team, task.id in parents, problems)


def _report_team(task: PlanTask, team: Team, has_parts: bool, problems: Problems) -> None:
    at = (task.line, task.column)
    if task.manual:
        reason, cure = "waits for a person, so no team can work on it", "Remove `team:`."
    elif has_parts or task.kind is not ItemKind.TASK:
        reason = "is a story or part of a story, which lands as a whole, so it cannot have a team"
        cure = "Remove `team:`, or make the story a task without subtasks."
    elif task.files == ():
        reason, cure = "changes no file, so no candidate could win", "Name its files."
    elif team.agents and task.agent is not None and {task.agent} != set(team.agents):
        reason = f"names the agent {task.agent} and a team of {', '.join(team.agents)}"
        cure = "Remove `agent:`, or name it in the team."
    else:
        return
    problems.error(at, "contradictory-team", f"{task.id} {reason}.", cure)
