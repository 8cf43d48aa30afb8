"""The rounds of a planner: it answers, weft judges the plan, and sends the problems back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from weft.errors import InputError
from weft.formats import count
from weft.model import TERMINAL, State
from weft.operations import single_task
from weft.operations.planner import ROUNDS, JudgedPlan, LastPlan
from weft.plan.plan_records import Problem
from weft.project.project import Project
from weft.store import Store
from weft.store.tasks import cancel, get_task

Attend = Callable[[Store, int], int]
"""Wait until a task has ended; return 130 if a person would not wait."""


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
    attend: Attend,
    tell: Callable[[str], None],
) -> PlanningResult:
    """Have a planner write a plan, in `ROUNDS` rounds at most.

    `request` submits the task of a round and returns its number; `judge` finds the plan in an
    answer, and its problems. `tell` takes a line for people.
    """
    tell("reading the repository and its history …")
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
            tell(f"round {result.rounds + 1} of at most {ROUNDS}: {planner} is planning …")
            result, answer = _run_round(store, task, result, attend)
            if answer is None:
                return result
            judged = judge(answer)
            again = last is not None and judged.plan == last.plan
            result = _add_plan(result, judged)
            if end := _find_end(result, judged, again=again):
                return replace(result, end="" if end == _GOOD else end)
            for line in _problem_lines(judged):
                tell(line)
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
    store: Store, task: int, result: PlanningResult, attend: Attend
) -> tuple[PlanningResult, str | None]:
    """Wait for the end of a planner's task; return its answer, None if there is none."""
    status = attend(store, task)
    use = single_task.summary(store, task)
    result = replace(
        result,
        rounds=result.rounds + 1,
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


def _problem_lines(judged: JudgedPlan) -> Iterator[str]:
    if judged.plan is None:
        yield "  its answer has no plan; it is asked again"
        return
    yield f"  {count(len(judged.problems), 'problem')} in its plan; it is asked to solve them:"
    for problem in judged.problems[:5]:
        yield f"    line {problem.line}: {problem.message} [{problem.code}]"
