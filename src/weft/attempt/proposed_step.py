"""The step that ends an attempt instead of finished work: a hand-over, a question or a sleep.

A chain of hand-overs has brakes: the agents that a file lists, the arguments that the next file
asks for, a number of hops, one budget, and no return of the same agent with the same arguments to
the same tree. A proposal that is written wrongly goes back into the session of its agent.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct

from weft.agents import proposal
from weft.agents.agent import USUAL_HOPS, Agent, AgentBudget
from weft.agents.proposal import AskStep, HandOverStep, Proposal, SleepStep
from weft.agents.usage import Spent
from weft.attempt.outcome import NextState
from weft.attempt.start_record import Order
from weft.errors import InputError
from weft.formats import count, dollars
from weft.model import (
    ASKED,
    HANDED_OVER,
    PROPOSAL,
    SLEPT,
    Attempt,
    Event,
    Hop,
    NewHop,
    Stage,
    State,
    Task,
    WakingEvent,
)
from weft.paths import normalise
from weft.project.agent_demand import demand_with_agent
from weft.project.site import Site
from weft.stages import looks
from weft.store.attempt_end import list_hops
from weft.store.event_log import history
from weft.store.tasks import find_task, get_task, list_attempts


class StepDecision(Struct, frozen=True, kw_only=True):
    """The next state of a task whose agent proposed a step."""

    next: NextState
    then: Stage | None = None
    hop: NewHop | None = None
    files: tuple[str, ...] = ()  # to claim besides
    options: tuple[str, ...] = ()
    wake: WakingEvent | None = None


def find_step(site: Site, order: Order, answer: str) -> Proposal | InputError | None:
    """Return the proposal of an ended attempt: its block, or else its last call of a tool.

    Return an InputError for a block that cannot be read, None without a proposal.
    """
    _, content = proposal.split_block(answer)
    if content is not None:
        try:
            return proposal.parse_block(content)
        except InputError as error:
            return error
    return find_proposed(history(site.store, order.task), order.attempt)


def find_proposed(events: Sequence[Event], attempt: int) -> Proposal | InputError | None:
    """Return the last proposal that an attempt made by a tool."""
    for event in reversed(events):
        if event.data.get("attempt") != attempt:
            continue
        if event.kind == "step_proposed":
            return proposal.convert(event.data["proposal"])
        if event.kind == "step_refused":
            return InputError(str(event.data["reason"]))
    return None


def decide(
    site: Site, order: Order, step: Proposal | InputError, *, tree: str, spent: Spent
) -> StepDecision:
    """Decide what follows a proposal; `tree` is the work that the agent leaves."""
    task = get_task(site.store, order.task)
    match step:
        case InputError():
            return _refused(site, order, str(step))
        case AskStep():
            asked = NextState(state=State.BLOCKED, kind=ASKED, reason=_question(step))
            return StepDecision(next=asked, options=tuple(step.options))
        case SleepStep():
            return _sleep(site, order, task, step)
    return _hand_over(site, order, task, step, tree, spent)


def _question(step: AskStep) -> str:
    options = f" ({' or '.join(step.options)})" if step.options else ""
    return f"{step.question}{options}"


def _sleep(site: Site, order: Order, task: Task, step: SleepStep) -> StepDecision:
    try:
        end = proposal.parse_until(step.until, now=time.time())
        wake = _find_event(site, task, end)
    except InputError as error:
        return _refused(site, order, str(error))
    asleep = NextState(
        state=State.PARKED, kind=SLEPT, reason=f"sleeps until {step.until}", until=end.at
    )
    return StepDecision(next=asleep, wake=wake)


def _find_event(site: Site, task: Task, end: proposal.WakeTime) -> WakingEvent | None:
    if end.trunk:
        if task.run is None:
            raise InputError("This task belongs to no run, so it has no trunk that could move.")
        return WakingEvent(kind="trunk_moved", subject=task.run)
    if not end.task:
        return None
    named = find_task(site.store, task.run, end.task) if task.run is not None else None
    if named is None and end.task.isdecimal() and len(end.task) < 16:
        named = get_task(site.store, int(end.task))
    if named is None or named.id == task.id:
        raise InputError(f"There is no other task {end.task!r} to wait for.")
    return WakingEvent(kind="task_ended", subject=str(named.id))


def _hand_over(
    site: Site, order: Order, task: Task, step: HandOverStep, tree: str, spent: Spent
) -> StepDecision:
    giver = site.read_agent(order.agent)
    receiver = find_agent(site, step.agent) if step.agent in giver.hands_to else None
    problem = proposal.find_problem(step, giver, receiver)
    if looks(order.stage):
        problem = f"The {order.stage} ends with a verdict, not with a hand-over."
    if problem or receiver is None:
        return _refused(site, order, problem)
    files = tuple(map(normalise, proposal.claimed_files(step, receiver)))
    if files and task.request.confined:
        return _refused(site, order, "The task may change no more files than it was given.")
    hop = NewHop(agent=step.agent, note=step.note, args=proposal.stored_args(step), tree=tree)
    hops = list_hops(site.store, task.id)
    chain = [old for old in hops if old.counts]
    used = spent_by(list_attempts(site.store, task.id), hops, spent)
    stop = find_stop(chain, hop, find_starter(site, order.agent, hops), used, task)
    if stop:
        return StepDecision(next=NextState(state=State.BLOCKED, kind=PROPOSAL, reason=stop))
    demand = demand_with_agent(receiver, task, task.demand, task.stage)
    then = Stage(name=order.stage or "", agent=receiver.name, demand=demand)
    handed = NextState(state=State.READY, kind=HANDED_OVER, reason=_handed(step))
    return StepDecision(next=handed, then=then, hop=hop, files=files)


def _handed(step: HandOverStep) -> str:
    note = f": {step.note.strip()}" if step.note.strip() else ""
    return f"handed over to {step.agent}{note}"


def find_agent(site: Site, name: str) -> Agent | None:
    try:
        return site.read_agent(name)
    except InputError:  # no file of this name
        return None


def find_starter(site: Site, present: str, hops: Sequence[Hop]) -> Agent | None:
    """Return the agent that started a chain: its file sets the hops and the budget."""
    return find_agent(site, hops[0].giver if hops else present)


def spent_by(attempts: Sequence[Attempt], hops: Sequence[Hop], present: Spent) -> AgentBudget:
    """Return the use of the attempts of a chain, the present attempt included.

    A chain that a person reopened starts anew.
    """
    reopened = max((hop.attempt for hop in hops if not hop.counts), default=0)
    chain = [attempt for attempt in attempts if attempt.number > reopened]
    return AgentBudget(
        micro_usd=sum(attempt.micro_usd for attempt in chain) + (present.micro_usd or 0),
        tokens=sum(attempt.tokens for attempt in chain) + present.tokens.total,
    )


def chain_budget(task: Task, first: Agent | None) -> AgentBudget:
    """Return the budget of a whole chain: the task's, or that of the agent that started it."""
    own = first.budget if first is not None else AgentBudget()
    return AgentBudget(micro_usd=task.request.budget or own.micro_usd, tokens=own.tokens)


def find_stop(
    hops: Sequence[Hop], hop: NewHop, first: Agent | None, spent: AgentBudget, task: Task
) -> str:
    """Return the reason to stop a chain before another hop; empty if it may go on."""
    most = first.hops if first is not None and first.hops is not None else USUAL_HOPS
    if len(hops) >= most:
        where = first.file if first is not None else "the agent file"
        return (
            f"The task was handed over {count(len(hops), 'time')} and may be no more "
            f"(`hops: {most}` in {where}); the next agent would be {hop.agent}."
        )
    for old in hops:
        if (old.agent, dict(old.args), old.tree) == (hop.agent, dict(hop.args), hop.tree):
            return (
                f"{hop.agent} got the same arguments on the same tree before (hand-over "
                f"{old.number}): the agents hand the task around without a change."
            )
    budget = chain_budget(task, first)
    if budget.micro_usd is not None and (spent.micro_usd or 0) >= budget.micro_usd:
        spending = f"{dollars(spent.micro_usd or 0)} of {dollars(budget.micro_usd)}"
        return f"The budget of the chain is used up: {spending}; {hop.agent} cannot start."
    if budget.tokens is not None and (spent.tokens or 0) >= budget.tokens:
        return f"The budget of the chain is used up: {spent.tokens:,} of {budget.tokens:,} tokens."
    return ""


def _refused(site: Site, order: Order, problem: str) -> StepDecision:
    """Send a proposal back into the session of its agent; after several, ask a person."""
    earlier = history(site.store, order.task)
    by_tool = any(_is_refusal(event, order.attempt) for event in earlier)
    again = count_refused(earlier) - by_tool < proposal.MOST_REFUSED
    reason = f"The proposed step was refused: {problem}"
    return StepDecision(
        next=NextState(state=State.READY if again else State.BLOCKED, kind=PROPOSAL, reason=reason)
    )


def _is_refusal(event: Event, attempt: int) -> bool:
    return event.kind == "step_refused" and event.data.get("attempt") == attempt


def count_refused(events: Sequence[Event]) -> int:
    """Count the refused proposals since the present agent got the task."""
    refused, by_tool = 0, set()
    for event in reversed(events):
        if event.kind in ("task_handed_over", "task_reopened"):
            break
        if event.kind == "step_refused":
            refused += 1
            by_tool.add(event.data["attempt"])
    for event in reversed(events):
        if event.kind in ("task_handed_over", "task_reopened"):
            break
        if event.kind == "attempt_finished" and event.data["outcome"] == PROPOSAL:
            refused += event.data["attempt"] not in by_tool
    return refused
