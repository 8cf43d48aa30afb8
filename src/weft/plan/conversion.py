"""Writing a plan as another kind of file: plan.md, prd.json or a beads export.

What comes before what is kept, and so are files, statuses and everything else both kinds of
file can say. Phases exist in plan.md only: elsewhere each task names what it waits for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from weft.model import HUMAN, Class, Priority, State
from weft.plan import comments, taskline
from weft.plan.compile import compile
from weft.plan.plan_records import Budget, ItemKind, Phase, Plan, PlanTask, Source
from weft.plan.problem_report import needs

_MARKS: Final = {
    State.WAITING: " ",
    State.RUNNING: "~",
    State.DONE: "x",
    State.BLOCKED: "!",
    State.SKIPPED: "-",
}
_BEADS_STATUS: Final = {
    State.WAITING: "open",
    State.RUNNING: "in_progress",
    State.BLOCKED: "blocked",
    State.DONE: "closed",
    State.SKIPPED: "closed",
}
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_.*?\[\]/][A-Za-z0-9_.*?\[\]/@+~ -]*[A-Za-z0-9_.*?\[\]/]")
_PLAIN_ID = re.compile(r"[^\s,;\"'`<>]{1,80}")


def convert(plan: Plan, to: Source) -> str:
    """Write the plan as the text of another kind of file."""
    match to:
        case Source.MARKDOWN:
            return _markdown(plan)
        case Source.PRD:
            return json.dumps(_prd(plan), indent=2, ensure_ascii=False) + "\n"
        case Source.BEADS:
            return "".join(json.dumps(issue, ensure_ascii=False) + "\n" for issue in _beads(plan))


def _markdown(plan: Plan) -> str:
    if plan.source is Source.MARKDOWN:
        phases: Sequence[Phase] = plan.phases
        labels = {task.id: (task.phase, task.label) for task in plan.tasks}
        waits = {
            task.id: [
                *(each.to for each in task.depends),
                *(f"phase{each.to}" for each in task.depends_phases),
            ]
            for task in plan.tasks
        }
    else:
        phases = [Phase(label="1", title=plan.title or "Tasks", line=1, parallel=True)]
        labels = {task.id: ("1", str(place)) for place, task in enumerate(plan.tasks, 1)}
        waits = needs(compile(plan))
    names = {
        task.id: task.id if _keeps_id(task) else ".".join(labels[task.id]) for task in plan.tasks
    }
    written: dict[str, list[str]] = {phase.label: [_phase(phase)] for phase in phases}
    for task in plan.tasks:
        phase, label = labels[task.id]
        waiting = [names.get(each, each) for each in waits[task.id]]
        written[phase].append(_task(task, label, waiting))
    title = f"# {_words(plan.title)}\n\n" if plan.title else ""
    return title + "\n".join("".join(parts) for parts in written.values())


def _phase(phase: Phase) -> str:
    title = f": {_words(phase.title)}" if phase.title else ""
    checkpoint = f" [checkpoint: {phase.checkpoint}]" if phase.checkpoint else ""
    lines = [f"## Phase {phase.label}{title}{checkpoint}"]
    if phase.parallel:
        lines.append("<!-- execution: parallel -->")
    if phase.depends is not None:
        listed = ", ".join(f"phase{each.to}" for each in phase.depends)
        lines.append(f"<!-- depends: {listed} -->" if listed else "<!-- depends: -->")
    return "\n".join([*lines, "", ""])


def _task(task: PlanTask, label: str, waits: Sequence[str]) -> str:
    tail = ""
    if task.status is State.DONE and task.commit:
        tail = f" {task.commit}"
    elif task.status is State.BLOCKED and task.note:
        tail = f" [BLOCKED: {task.note}]"
    lines = [f"- [{_MARKS[task.status]}] Task {label}: {_words(task.text)}{tail}"]
    lines.extend(f"  <!-- {key}: {value} -->" for key, value in _annotations(task, waits))
    if details := _details(task.details):
        if not details.startswith(("- ", "* ", "1. ")):
            lines.append("")
        lines.extend(f"  {line}" if line else "" for line in details.split("\n"))
    return "\n".join(lines) + "\n"


def _annotations(task: PlanTask, waits: Sequence[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if _keeps_id(task):
        found.append(("id", task.id))
    if task.files and not task.manual:
        found.append(("files", ", ".join(_path(each) for each in task.files)))
    elif task.files is not None and not task.manual:
        found.append(("files", "none"))
    if task.reads:
        found.append(("reads", ", ".join(_path(each) for each in task.reads)))
    if waits:
        found.append(("depends", ", ".join(dict.fromkeys(waits))))
    if task.agent and not (task.agent == HUMAN and taskline.asks_for_a_person(task.text)):
        found.append(("agent", task.agent))
    singles: list[tuple[str, str | None]] = [
        ("parallel-group", task.group),
        ("stages", ", ".join(task.stages)),
        ("priority", task.priority.name.lower() if task.priority != Priority.NORMAL else None),
        ("class", task.klass.name.lower() if task.klass != Class.STANDARD else None),
        ("budget", _budget(task.budget)),
        ("uses", ", ".join(f"{name}={amount:g}" for name, amount in task.uses.items())),
        ("check", task.check),
        ("team", f"{task.team.size} of {task.team.agent}" if task.team else None),
    ]
    found.extend((key, _words(value)) for key, value in singles if value)
    return found


def _prd(plan: Plan) -> dict[str, Any]:
    parts: dict[str, list[PlanTask]] = {}
    for task in plan.tasks:
        if task.kind is ItemKind.SUBTASK and task.parent is not None:
            parts.setdefault(task.parent, []).append(task)
    waits = _waits(plan)
    stories = []
    for task in plan.tasks:
        if task.kind is ItemKind.SUBTASK:
            continue
        story = _story(task, waits[task.id])
        if task.id in parts:
            story["subtasks"] = [_subtask(part, waits[part.id]) for part in parts[task.id]]
        stories.append(story)
    return {"title": plan.title, "description": plan.description, "stories": stories}


def _waits(plan: Plan) -> Mapping[str, Sequence[str]]:
    """What each task waits for, said once: a PRD knows that a story waits for its subtasks."""
    if plan.source is Source.PRD:
        return {task.id: [each.to for each in task.depends] for task in plan.tasks}
    return needs(compile(plan))


def _story(task: PlanTask, waits: Sequence[str]) -> dict[str, Any]:
    optional: dict[str, Any] = {
        "description": task.details,
        "priority": task.priority.name.lower() if task.priority != Priority.NORMAL else None,
        "files": (list(task.files) or "none") if task.files is not None else None,
        "depends_on": list(dict.fromkeys(waits)),
        "parallel_group": task.group,
        "passes": task.status is State.DONE,
        "skipped": task.status is State.SKIPPED,
        "agent": task.agent,
        "check": task.check,
    }
    said = {key: value for key, value in optional.items() if value}
    return {"id": task.id, "title": task.text, **said}


def _subtask(task: PlanTask, waits: Sequence[str]) -> dict[str, Any]:
    """A subtask has the priority of its story, and no group of its own."""
    said = _story(task, waits)
    return {key: said[key] for key in said if key not in ("priority", "parallel_group")}


def _beads(plan: Plan) -> list[dict[str, Any]]:
    compiled = compile(plan)
    part_of = {task.id: task.parent for task in plan.tasks}
    waits = needs(compiled)
    found = []
    for task in plan.tasks:
        links = [
            {"issue_id": task.id, "depends_on_id": before, "type": "blocks"}
            for before in dict.fromkeys(waits[task.id])
            if part_of[before] != task.id
        ]
        if task.parent is not None:
            links.append(
                {"issue_id": task.id, "depends_on_id": task.parent, "type": "parent-child"}
            )
        extra = {
            "files": (list(task.files) or "none") if task.files is not None else None,
            "agent": task.agent,
            "check": task.check,
        }
        found.append(
            {
                "id": task.id,
                "title": task.text,
                "description": task.details,
                "status": _BEADS_STATUS[task.status],
                "priority": int(task.priority),
                "issue_type": "epic" if task.kind in (ItemKind.EPIC, ItemKind.STORY) else "task",
                "metadata": {key: value for key, value in extra.items() if value is not None},
                "dependencies": links,
            }
        )
    return found


def _keeps_id(task: PlanTask) -> bool:
    return task.named and _PLAIN_ID.fullmatch(task.id) is not None and "--" not in task.id


def _words(text: str) -> str:
    """Text that stays on its line and opens no comment."""
    return " ".join(text.split()).replace("<!--", "<!- -").replace("-->", "- ->")


def _details(text: str) -> str:
    """Details without comments, which would be read as annotations of the task."""
    text = comments.without(text, comments.in_html(text.split("\n"), 1))
    return text.replace("<!--", "<!- -").strip("\n")


def _path(path: str) -> str:
    """A path as an annotation can hold it; what would end the comment becomes a wildcard."""
    path = path.replace("-->", "--?").replace('"', "?")
    return path if _PLAIN_PATH.fullmatch(path) and path != "none" else f'"{path}"'


def _budget(budget: Budget | None) -> str | None:
    if budget is None:
        return None
    money = f"${budget.usd:g}" if budget.usd is not None else None
    time = None
    if budget.seconds is not None:
        minutes, rest = divmod(budget.seconds, 60)
        time = f"{budget.seconds}s" if rest else f"{minutes}m"
    return ", ".join(each for each in (money, time) if each)
