"""The loop of a dispatcher: a run whose tasks each start with the same agent.

The dispatcher hands its task over to the agent that the work needs. Then the run gets its next
task, until the dispatcher ends a task without a hand-over: nothing is left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from weft.agents.next_agents import write_args
from weft.errors import InputError
from weft.model import TERMINAL, Hop, NewTask, Run, State, Task
from weft.operations.submission import submit_prepared
from weft.plan.plan_records import Source
from weft.project.agent_list import get_agent
from weft.project.project import Project
from weft.runs.agent_readiness import require_agents
from weft.runs.plan_check import PlanSource, check, setting_of
from weft.runs.preparation import PlanUpload, RunOptions, prepare
from weft.store import Store
from weft.store.attempt_end import list_run_hops
from weft.store.runs import add_task, list_runs
from weft.store.server_operations import hosted
from weft.store.tasks import list_run

LOOP: Final = "weft loop"
"""The plan of the run of a loop."""

DISPATCHER: Final = "dispatch"
_ALIKE: Final = 3  # tasks in a row with the same work on the same tree, after which a loop stops
_PLAN: Final = """# Loop

- [ ] Task 1: Choose the next piece of work <!-- files: none -->
"""
_STANDS: Final = frozenset({State.BLOCKED, State.PAUSED})


class LoopState(StrEnum):
    WORKS = "works"
    NEXT = "next"  # the dispatcher may start again
    DONE = "done"  # nothing is left
    SLEEPS = "sleeps"
    NEEDS_YOU = "needs you"
    TURNS = "turns"  # the dispatcher hands out the same work again and again


class LoopView(Struct, frozen=True, kw_only=True):
    tasks: tuple[Task, ...]  # oldest first
    hops: Mapping[int, Sequence[Hop]]
    dispatcher: str


def find_loop(store: Store, agent: str) -> Run | None:
    """Return the newest unfinished loop of a dispatcher."""
    for run in list_runs(store):
        if run.plan == LOOP and run.state != "ended" and get_dispatcher(store, run.id) == agent:
            return run
    return None


def get_dispatcher(store: Store, run: str) -> str:
    return str(list_run(store, run)[0].request.stages[0].agent)


@hosted("write")
def start_loop(project: Project, agent: str, slots: int | None) -> str:
    """Go on with the unfinished loop of a dispatcher, or start another; return its run."""
    if not get_agent(project, agent).hands_to:
        raise InputError(
            f"Agent {agent} hands its tasks over to no agent: name some in `hands_to` of "
            f".weft/agents/{agent}.md, or let `weft init --template loop` write a set of agents."
        )
    with project.open_store() as store:
        unfinished = find_loop(store, agent)
        if unfinished is not None:
            return unfinished.id
        source = PlanSource(name="loop.md", data=_PLAN.encode(), format=Source.MARKDOWN)
        checked = check(source, setting_of(project, store), slots, agent=agent)
        upload = PlanUpload(source=source, stem="loop", place=LOOP, spec="")
        prepared = prepare(project, checked, upload, RunOptions(agent=agent, slots=slots))
        require_agents(project, store, prepared.agents)
        # Without a title, the commits are called by the note of the dispatcher.
        [task] = prepared.tasks
        first = replace(task, name="1", request=replace(task.request, title=""))
        return submit_prepared(project, store, replace(prepared, tasks=[first])).run


def read_loop(store: Store, run: str) -> LoopView:
    tasks = tuple(list_run(store, run))
    return LoopView(
        tasks=tasks, hops=list_run_hops(store, run), dispatcher=get_dispatcher(store, run)
    )


def advance(store: Store, run: str, *, most: int) -> LoopState:
    """Give a loop its next task, if it is time; `most` tasks are under way at once."""
    view = read_loop(store, run)
    state = decide(view, most=most)
    if state is not LoopState.NEXT:
        return state
    add_task(store, run, next_task(view), now=time.time())
    return LoopState.WORKS


def decide(view: LoopView, *, most: int) -> LoopState:
    """Decide whether the dispatcher starts again, waits or is at its end."""
    unended = [task for task in view.tasks if task.state not in TERMINAL]
    moving = [task for task in unended if task.state not in _STANDS]
    at_desk = [task for task in unended if task.agent == view.dispatcher]
    if at_desk:
        if moving and all(task in at_desk and task.state is State.PARKED for task in moving):
            return LoopState.SLEEPS
        return LoopState.WORKS if moving else LoopState.NEEDS_YOU
    if _turns(view):
        return LoopState.WORKS if moving else LoopState.TURNS
    if _may_find_more(view):
        return LoopState.NEXT if len(unended) < most else _wait(moving)
    return _wait(moving) if unended else LoopState.DONE


def _wait(moving: Sequence[Task]) -> LoopState:
    return LoopState.WORKS if moving else LoopState.NEEDS_YOU


def _may_find_more(view: LoopView) -> bool:
    """Tell whether the dispatcher handed its last task over, or work has ended since it found
    none; it found nothing yet if a person skipped its task."""
    last = view.tasks[-1]
    if view.hops.get(last.id) or last.state is State.SKIPPED:
        return True
    if last.state is not State.DONE:
        return False
    return any(
        task.state in TERMINAL and task.since > last.since and view.hops.get(task.id)
        for task in view.tasks
    )


def _turns(view: LoopView) -> bool:
    """Tell whether the last tasks were all handed over for the same work on the same tree, and a
    person has skipped none of them."""
    latest = [task for task in view.tasks[-_ALIKE:] if task.state is not State.SKIPPED]
    firsts = [view.hops[task.id][0] for task in latest if view.hops.get(task.id)]
    alike = {(hop.agent, tuple(sorted(write_args(hop.args).items())), hop.tree) for hop in firsts}
    return len(firsts) == _ALIKE and len(alike) == 1


def next_task(view: LoopView) -> NewTask:
    """Return the next task of a loop: like its first, with the work that is under way."""
    first = view.tasks[0]
    [stage] = first.request.stages
    under_way = [
        f"- task {task.name}, {task.agent}: {_describe(view.hops[task.id][0])}"
        for task in view.tasks
        if task.state not in TERMINAL and view.hops.get(task.id)
    ]
    about = ["", "Under way already; hand out other work:", "", *under_way] if under_way else []
    return NewTask(
        name=str(len(view.tasks) + 1),
        text="\n".join([first.text.splitlines()[0], *about]),
        request=first.request,
        demand=stage.demand,
        agent=stage.agent,
        stage=stage.name,
        klass=first.klass,
        priority=first.priority,
    )


def _describe(hop: Hop) -> str:
    args = ", ".join(f"{name}={text}" for name, text in write_args(hop.args).items())
    return " ".join((args or hop.note).split())[:200]
