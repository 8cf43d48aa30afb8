"""A goal becomes a plan: the tasks of a planner, and the judgement of its answers.

A planner is an agent with `stage: plan`. Each round is a task of its own that continues the
session of the round before; the caller runs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from weft import git
from weft.agents.agent import Agent
from weft.errors import InputError
from weft.formats import dollars, first_sentence
from weft.model import PLAN, TaskRequest
from weft.plan.critics import NO_SUCH_PATH, AgentBounds, RepositoryFacts, criticise
from weft.plan.plan_prose import find_plan
from weft.plan.plan_records import NO_FILES, Problem
from weft.plan.problems import sort_by_place
from weft.project.agent_list import get_agent
from weft.project.project import Project
from weft.project.site import agent_names, read_agent
from weft.runs import plan_check, single_task
from weft.runs.plan_check import CheckedPlan, PlanSource, setting_of
from weft.runs.plan_request import LastPlan, write_request
from weft.runs.preparation import USUAL_AGENT
from weft.runs.repository_map import MOST_HUBS, read_history, write_map
from weft.runs.single_task import SingleTask
from weft.store import Store
from weft.store.server_operations import hosted

ROUNDS: Final = 3
LONGEST_GOAL: Final = 100_000
"""Characters of a goal."""


class JudgedPlan(Struct, frozen=True, kw_only=True):
    """The plan in an answer, with its problems."""

    plan: str | None  # None: the answer has no plan
    problems: tuple[Problem, ...] = ()
    tasks: int = 0


@hosted("read")
def find_planner(project: Project, name: str | None) -> str:
    """Return the name of the agent that plans; raise InputError if there is none that can."""
    single_task.require_commit(project)
    agent = get_agent(project, name) if name else _only_planner(project)
    single_task.require_program(project, agent)
    return agent.name


def _only_planner(project: Project) -> Agent:
    agents = [_find_agent(project, name) for name in agent_names(project.root)]
    planners = [agent for agent in agents if agent is not None and agent.stage == PLAN]
    if not planners:
        raise InputError(
            "There is no agent with `stage: plan` here. `weft init` writes one; `weft plan new` "
            "without a goal writes a plan to fill in."
        )
    return next((agent for agent in planners if agent.name == PLAN), planners[0])


def _find_agent(project: Project, name: str) -> Agent | None:
    try:
        return read_agent(project.root, name)
    except InputError:  # a broken file is no planner; `weft agents` shows it
        return None


def require_goal(goal: str) -> None:
    """Raise InputError for a goal that is empty or too long."""
    if not goal.strip():
        raise InputError('Say what the plan is for: weft plan new "add a login page".')
    if len(goal) > LONGEST_GOAL:
        raise InputError(f"The goal is longer than {LONGEST_GOAL:,} characters; shorten it.")


@hosted("write")
def request_plan(project: Project, goal: str, planner: str, last: LastPlan | None) -> int:
    """Submit the task of a round; return its number."""
    require_goal(goal)
    with project.open_store() as store:
        text = write_request(goal, write_map(project, store, goal), last)
        return submit_round(project, store, text, f"Plan: {first_sentence(goal)}", planner, last)


def submit_round(
    project: Project, store: Store, text: str, title: str, planner: str, last: LastPlan | None
) -> int:
    """Submit the task of a round with this text; return its number."""
    agent = get_agent(project, planner)
    request = SingleTask(
        text=text,
        files=(),
        agent=agent,
        stage=PLAN,
        request=TaskRequest(
            title=title,
            continues=None if last is None else last.task,
            budget=_left(agent, last),
        ),
    )
    return single_task.submit_task(project, store, request)


def _left(agent: Agent, last: LastPlan | None) -> int | None:
    """Return the rest of the budget that all rounds share."""
    budget = agent.budget.micro_usd
    if budget is None or last is None:
        return budget
    if last.micro_usd >= budget:
        raise InputError(
            f"The budget of {agent.name}, {dollars(budget)}, is used up ({agent.file})."
        )
    return budget - last.micro_usd


@hosted("read")
def judge_answer(project: Project, answer: str, name: str) -> JudgedPlan:
    """Compile the plan in an answer, and criticise it; `name` is the file it is for."""
    compiled = compile_answer(project, answer, name)
    if compiled is None:
        return JudgedPlan(plan=None)
    text, checked = compiled
    return JudgedPlan(
        plan=text,
        problems=list_findings(project, checked),
        tasks=len(checked.compiled.plan.tasks),
    )


def compile_answer(project: Project, answer: str, name: str) -> tuple[str, CheckedPlan] | None:
    """Return the plan in an answer, as text and compiled; None if there is none."""
    text = find_plan(answer)
    if text is None:
        return None
    with project.open_store() as store:
        source = PlanSource(name=name, data=text.encode())
        return text, plan_check.check(source, setting_of(project, store))


def list_findings(
    project: Project, checked: CheckedPlan, new: Iterable[str] = ()
) -> tuple[Problem, ...]:
    """List the problems of a planner's plan: the compiler's and the critics'.

    `new` are files that the plan may name although the repository does not have them.
    """
    facts = _facts(project, checked.seconds, frozenset(new))
    findings = criticise(checked.compiled, facts)
    # The critics are stricter: they ask for files even where weft could predict them.
    rest = [each for each in checked.problems if each.code not in (NO_FILES, NO_SUCH_PATH)]
    return sort_by_place([*rest, *findings])


def _facts(project: Project, seconds: Mapping[str, float], new: frozenset[str]) -> RepositoryFacts:
    agents = [_find_agent(project, name) for name in agent_names(project.root)]
    history = read_history(project.root)
    return RepositoryFacts(
        paths=frozenset(git.list_tracked_files(project.root)),
        new=new,
        hubs={path: history.share(path) for path in history.list_hubs()[:MOST_HUBS]},
        agents={
            agent.name: AgentBounds(seconds=agent.timeout, micro_usd=agent.budget.micro_usd)
            for agent in agents
            if agent is not None
        },
        agent=USUAL_AGENT,
        seconds=seconds,
    )
