"""A planner's work: a goal becomes a plan, and tasks get files.

A planner is an agent with `stage: plan`. Each round is a task of its own that continues the
session of the round before; the caller runs them. weft judges each answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from weft import git, plan
from weft.agents.agent import Agent
from weft.agents.prompt import write_fenced
from weft.errors import InputError
from weft.formats import count, dollars, first_sentence, listed, plain
from weft.model import PLAN, TaskRequest
from weft.operations import single_task
from weft.operations.repository_map import MOST_HUBS, read_history, write_map
from weft.operations.single_task import SingleTask
from weft.plan.critics import NO_SUCH_PATH, AgentBounds, RepositoryFacts, criticise
from weft.plan.plan_prose import find_plan
from weft.plan.plan_records import NO_FILES, PlanTask, Problem, Severity
from weft.plan.problems import TOP, Problems, shorten, sort_by_place
from weft.project.agent_list import get_agent
from weft.project.project import Project
from weft.project.site import agent_names, read_agent
from weft.runs import plan_check
from weft.runs.file_prediction import task_text
from weft.runs.plan_check import CheckedPlan, PlanSource, setting_of
from weft.runs.preparation import USUAL_AGENT
from weft.store import Store
from weft.store.server_operations import hosted

ROUNDS: Final = 3
LONGEST_GOAL: Final = 100_000
"""Characters of a goal."""
FORM_HEADING: Final = "## The form of the plan"
PROBLEMS_HEADING: Final = "## The problems of your last plan"
_MOST_PROBLEMS: Final = 60
_FORM: Final = """\
Answer with the plan alone, in this form:

```markdown
# Title

## Phase 1: Name
<!-- execution: parallel -->

- [ ] Task 1: What to change, and how it is known to be done
  <!-- files: src/app.py, tests/test_app.py -->
  <!-- check: python -m pytest tests/test_app.py -->
- [ ] Task 2: The same for a module that does not exist yet
  <!-- new: src/auth.py, tests/test_auth.py -->
  <!-- check: python -m pytest tests/test_auth.py -->

## Phase 2: Name

- [ ] Task 1: What builds on both
  <!-- files: src/main.py; depends: phase1/task2 -->
  <!-- check: python -m pytest tests/test_main.py -->
```

- Tasks of a phase run one after another, unless it says `execution: parallel`. A phase starts when
  all phases before it are done, unless it says `depends:` with the phases it needs.
- `files:` names what a task changes, and nothing else: two tasks never change a file at the same
  time. `new:` names the files that it creates. Paths are relative to the root of the repository.
- A file that many tasks need is changed by one task, before or after the others.
- `check:` is a command that passes when the task is done.
- An agent sees the text of its own task and nothing else of the plan: say where, what and how.
- No task for a person, no placeholder, no task that only looks."""
_COUNTED: Final = frozenset({NO_FILES, NO_SUCH_PATH, "not-new"})
"""The findings that matter where a planner names files and plans nothing else."""


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


class LastPlan(Struct, frozen=True, kw_only=True):
    """The answer of a planner in the round before, with its problems."""

    task: int  # the planner's task
    plan: str | None  # None: the answer had no plan
    problems: tuple[Problem, ...]
    micro_usd: int  # spent in all rounds so far


def write_request(goal: str, map_text: str, last: LastPlan | None) -> str:
    """Write the whole text, since a session that continues may have been lost."""
    parts = [goal.strip(), "## The repository", write_fenced(map_text), FORM_HEADING, _FORM]
    if last is not None:
        parts += [PROBLEMS_HEADING, *_describe(last)]
    return "\n\n".join(parts) + "\n"


def _describe(last: LastPlan) -> Iterator[str]:
    if last.plan is None:
        yield "Your last answer had no task in the form above. Answer with the plan itself."
        return
    yield "Write the whole plan again, without these problems:"
    yield "\n".join(_problem_lines(last.problems, last.plan.split("\n")))
    yield "Your last plan:"
    yield write_fenced(last.plan)


def _problem_lines(problems: Sequence[Problem], lines: Sequence[str]) -> Iterator[str]:
    for problem in problems[:_MOST_PROBLEMS]:
        quoted = lines[problem.line - 1].strip() if problem.line <= len(lines) else ""
        where = f"line {problem.line}" + (f" (`{shorten(quoted)}`)" if quoted else "")
        yield plain(f"- {where}: {problem.message} [{problem.code}] {problem.suggestion}".rstrip())
    if len(problems) > _MOST_PROBLEMS:
        yield f"- and {count(len(problems) - _MOST_PROBLEMS, 'more problem')}"


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
