"""Teams in a plan: annotations that complete a team, and teams that contradict their tasks."""

from __future__ import annotations

from msgspec.structs import replace

from weft.plan.annotation_values import Notes
from weft.plan.plan_records import ItemKind, Plan, PlanTask
from weft.plan.problems import Problems
from weft.teams.team_text import Strategy, Team


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
