"""The rounds of a planner: it answers, weft judges the plan, and sends the problems back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from weft.cli.output import say
from weft.cli.task_follower import TaskFollower, follow_to_end
from weft.errors import InputError
from weft.formats import count, dollars, duration
from weft.model import TERMINAL, Event, State
from weft.plan.plan_records import Problem
from weft.plan.problems import shorten
from weft.project.project import Project
from weft.runs import single_task
from weft.runs.plan_request import LastPlan
from weft.runs.plan_words import problem_lines
from weft.runs.planner import ROUNDS, JudgedPlan
from weft.store import Store
from weft.store.event_log import last_event
from weft.store.tasks import cancel, get_task

_WIDTH = 76  # columns of a line of the planner's


class PlanningResult(Struct, frozen=True, kw_only=True):
    agent: str
    plan: str | None = None  # the last plan
    problems: tuple[Problem, ...] = ()
    tasks: int = 0  # of the plan
    end: str = ""  # why there is no further round, unless the plan is good
    rounds: int = 0
    seconds: float = 0.0
    tokens: int = 0
    micro_usd: int = 0
    interrupted: bool = False


def run_rounds(
    project: Project,
    planner: str,
    request: Callable[[LastPlan | None], int],
    judge: Callable[[str], JudgedPlan],
    *,
    quiet: bool,
) -> PlanningResult:
    """Have a planner write a plan, in `ROUNDS` rounds at most.

    `request` submits the task of a round and returns its number; `judge` finds the plan in an
    answer, and its problems.
    """
    if not quiet:
        say("reading the repository and its history …")
    result = PlanningResult(agent=planner)
    last: LastPlan | None = None
    with project.open_store() as store:
        while True:
            try:
                task = request(last)
            except InputError as error:
                if last is None:
                    raise
                return replace(result, end=str(error))
            result, answer = _run_round(project, store, task, result, quiet=quiet)
            if answer is None:
                return result
            judged = judge(answer)
            again = last is not None and judged.plan == last.plan
            result = _add_plan(result, judged)
            if end := _find_end(result, judged, again=again):
                return replace(result, end="" if end == _GOOD else end)
            _tell_problems(judged, quiet=quiet)
            last = LastPlan(
                task=task,
                plan=judged.plan,
                problems=judged.problems,
                micro_usd=result.micro_usd,
            )


_GOOD = "good"


def _find_end(result: PlanningResult, judged: JudgedPlan, *, again: bool) -> str:
    """Return the reason to end; empty if another round may help."""
    if judged.plan is not None and not judged.problems:
        return _GOOD
    if again:
        what = "no plan" if judged.plan is None else "the same plan"
        return f"The planner gave {what} again."
    if result.rounds >= ROUNDS:
        return f"The planner had {count(ROUNDS, 'round')}."
    return ""


def _add_plan(result: PlanningResult, judged: JudgedPlan) -> PlanningResult:
    """Take the plan of a round; a round without a plan leaves the plan before."""
    if judged.plan is None:
        return result
    return replace(result, plan=judged.plan, problems=judged.problems, tasks=judged.tasks)


def _run_round(
    project: Project, store: Store, task: int, result: PlanningResult, *, quiet: bool
) -> tuple[PlanningResult, str | None]:
    """Run a planner's task to its end; return its answer, None if there is none."""
    number = result.rounds + 1
    if not quiet:
        say(f"round {number} of at most {ROUNDS}: {result.agent} is planning …")
    follower = PlannerFollower(store, task, after=last_event(store), quiet=quiet)
    status = follow_to_end(project, store, task, follower)
    use = single_task.summary(store, task)
    result = replace(
        result,
        rounds=number,
        seconds=result.seconds + use["seconds"],
        tokens=result.tokens + use["tokens"],
        micro_usd=result.micro_usd + use["micro_usd"],
        interrupted=status == 130,
    )
    about = get_task(store, task)
    if about.state is State.DONE:
        return result, about.result
    if about.state not in TERMINAL:
        # No later command would read its plan.
        cancel(store, task, now=time.time(), reason="the command that asked for the plan has ended")
    reason = about.reason or about.state.value
    end = "You interrupted the planner." if result.interrupted else f"The planner failed: {reason}"
    return replace(result, end=end), None


class PlannerFollower(TaskFollower):
    """Prints the progress of a planner, a line for each message or tool; not its plan."""

    def _tell_report(self, report: Mapping[str, Any]) -> None:
        if report["type"] == "text":
            text = report["text"].strip()
        elif report["type"] == "tool":
            text = f"{report['name']} {report['detail']}".strip()
        else:
            return
        if text:
            self._say(f"  {shorten(text.splitlines()[0], _WIDTH)}")

    def _tell_result(self, result: str) -> None:
        """Print nothing: the plan is in its file."""

    def tell(self, event: Event) -> None:
        if event.kind != "attempt_finished" or event.data["outcome"] != "success":
            super().tell(event)


def _tell_problems(judged: JudgedPlan, *, quiet: bool) -> None:
    if quiet:
        return
    if judged.plan is None:
        say("  its answer has no plan; it is asked again")
    else:
        say(f"  {count(len(judged.problems), 'problem')} in its plan; it is asked to solve them:")
        for problem in judged.problems[:5]:
            say(f"    line {problem.line}: {problem.message} [{problem.code}]")


def as_json(result: PlanningResult, file: str) -> dict[str, Any]:
    fields: dict[str, Any] = to_builtins(result)
    del fields["plan"]
    return {"file": None if result.plan is None else file, **fields}


def result_lines(result: PlanningResult, file: str) -> Iterator[str]:
    """Yield the end of the rounds for people: problems, cost and next step."""
    yield ""
    for problem in result.problems:
        yield from problem_lines(problem)
    if result.end:
        yield result.end
    if result.plan is None:
        yield "No plan was written."
    else:
        wrong = count(len(result.problems), "problem") if result.problems else "no problems"
        yield f"Wrote {file}: {count(result.tasks, 'task')}, {wrong}. Nothing was run."
    yield describe_cost(result)
    if result.plan is not None:
        edit = f"edit {file}, then weft plan check {file}"
        yield f"next: {edit if result.problems else f'weft plan show {file}'}"


def describe_cost(result: PlanningResult) -> str:
    tokens = f", {result.tokens:,} tokens" if result.tokens else ""
    cost = dollars(result.micro_usd) if result.micro_usd else "no reported cost"
    rounds = count(result.rounds, "round")
    return f"Planning took {rounds}, {duration(result.seconds)}{tokens}, {cost}."
