"""Files of tasks as a planner names them: its request, and the judgement of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft import plan
from weft.agents.prompt import write_fenced
from weft.formats import count, listed
from weft.plan.critics import NO_SUCH_PATH
from weft.plan.plan_records import NO_FILES, PlanTask, Problem, Severity
from weft.plan.problems import TOP, Problems, sort_by_place
from weft.project.project import Project
from weft.runs.file_prediction import task_text
from weft.runs.plan_request import LastPlan, write_request
from weft.runs.planner import JudgedPlan, compile_answer, list_findings, submit_round
from weft.runs.repository_map import write_map

_COUNTED: Final = frozenset({NO_FILES, NO_SUCH_PATH, "not-new"})
"""The findings that matter where a planner names files and plans nothing else."""


def request_files(
    project: Project, tasks: Sequence[PlanTask], planner: str, last: LastPlan | None
) -> int:
    """Submit the task of a round; return its number."""
    texts = "\n\n".join(f"{task.id}: {task_text(task).strip()}" for task in tasks)
    goal = "\n\n".join(
        [
            "Name the files that each of these tasks of a plan will change. Do not do the tasks.",
            write_fenced(texts),
            "Write a plan with one parallel phase and these tasks, each in one line. Below each "
            "task write its `id:`, the `files:` that it changes and the `new:` files that it "
            "creates; a check is not needed.",
        ]
    )
    with project.open_store() as store:
        text = write_request(goal, write_map(project, store, texts), last)
        title = f"Name the files of {count(len(tasks), 'task')}"
        return submit_round(project, store, text, title, planner, last)


def judge_files(project: Project, tasks: Sequence[PlanTask], answer: str, name: str) -> JudgedPlan:
    """Compile the tasks in an answer; the problems name wrong paths and missing tasks."""
    compiled = compile_answer(project, answer, name)
    if compiled is None:
        return JudgedPlan(plan=None)
    text, checked = compiled
    findings = [
        problem
        for problem in list_findings(project, checked)
        if problem.code in _COUNTED or problem.severity is Severity.ERROR
    ]
    named = {task.id for task in checked.compiled.plan.tasks}
    missing = _report_missing([task.id for task in tasks if task.id not in named], name)
    return JudgedPlan(plan=text, problems=sort_by_place([*findings, *missing]), tasks=len(named))


def _report_missing(ids: Sequence[str], name: str) -> tuple[Problem, ...]:
    problems = Problems(name)
    if ids:
        advice = "Write a task with that `id:`."
        problems.error(TOP, "missing-task", f"{listed(list(ids))} is not in the plan.", advice)
    return problems.sorted()


def read_files(plan_text: str, name: str) -> dict[str, tuple[str, ...]]:
    """Return the files of each task in a planner's answer, by id."""
    tasks = plan.read(name, plan_text.encode()).plan.tasks
    return {task.id: task.files for task in tasks if task.files}
