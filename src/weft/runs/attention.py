"""Attention: the tasks and limits that need a person, and the runs that are stuck without help.

`weft ps`, `weft run`, the live view and notifications all use this pure decision over the rows of
`store.overview`. A limit that is full while attempts run, a parked task and a wait that ends with
time need no person. A wait that no end of an attempt resolves needs a person.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from weft.admission.capacity import Shortage, is_consumable
from weft.config import DEFAULT_LIMITS
from weft.formats import dollars, first_line
from weft.host_labels import describe_labels, worker_command
from weft.model import ASKED, TERMINAL, Event, State, Task, TaskKind
from weft.runs.run_figures import list_holdups
from weft.store import Store
from weft.store.overview import AskedWork, Prospects, Ready, read_prospects
from weft.store.store import reads
from weft.store.summaries import milestones
from weft.store.tasks import find_tasks, list_run, list_run_edges
from weft.words import state_word, task_label

if TYPE_CHECKING:
    pass

_DOLLAR: Final = 1_000_000
_NAMES: Final = 6  # of many runs
_PAST = frozenset({State.DONE, State.SKIPPED})


class AttentionItem(Struct, frozen=True, kw_only=True):
    """A need for a person. Subject and text together are a sentence."""

    subject: str
    text: str
    do: tuple[str, ...]  # commands, any of which helps
    runs: frozenset[str]  # held up by it; "": tasks of no run
    since: float | None = None
    # drained, gate, agent, budget, limit, worker, blocked, asked, paused, question, review, ended
    kind: str = ""
    task: int | None = None
    about: str = ""  # the run, agent or limit that a person acts on
    enough: int = 0  # a value of the limit that lets work go on
    path_seconds: float = 0.0  # of the longest path behind it, a task's own time included

    def __str__(self) -> str:
        return f"{self.subject} {self.text} ({' or '.join(f'`{command}`' for command in self.do)})"


class Attention(Struct, frozen=True, kw_only=True):
    all: tuple[AttentionItem, ...]
    stuck: frozenset[str]  # runs in which no task can go on without a person

    def of(self, run: str) -> tuple[AttentionItem, ...]:
        return tuple(need for need in self.all if run in need.runs)


def read_attention(store: Store, *, now: float) -> Attention:
    return find_attention(read_prospects(store, now=now), server=store.find_server)


def as_dict(need: AttentionItem) -> dict[str, Any]:
    return {"subject": need.subject, "text": need.text, "do": list(need.do)}


def find_attention(prospects: Prospects, *, server: Callable[[], str] = str) -> Attention:
    """Find the needs and the stuck runs; `server` returns the address that advice names, or ''."""
    moving = _moving(prospects)
    items = [
        *_drained(prospects),
        *_gates(prospects),
        *_stopped(prospects),
        *_limits(prospects),
        *_workers(prospects, server),
        *_places(prospects, moving),
        *_tasks(prospects),
    ]
    behind = _behind(prospects, moving)
    return Attention(
        all=tuple(replace(need, runs=_spread(need.runs, behind)) for need in items),
        stuck=frozenset(
            course.run for course in prospects.courses if course.run and not course.over
        ).difference(moving),
    )


def _moving(prospects: Prospects) -> set[str]:
    """Find the runs in which a task goes on by itself; "" stands for tasks of no run."""
    moving = {
        course.run
        for course in prospects.courses
        if course.at_work
        or course.comes_back
        or (course.landing and not course.gate)
        or (course.untested and not course.gate and not course.waits)
        or (course.queued and not course.gate and not course.short)
        or (course.over and not course.waits)
    }
    starts = [task for task in prospects.ready if _may_start(prospects, task)]
    moving |= {task.run for task in starts if task.holder is None}
    waiting = {course.run for course in prospects.courses if course.waits}
    placed = {course.run for course in prospects.courses if course.run} - waiting
    places = prospects.places
    if places is None or places.used < places.capacity:
        moving |= waiting
    before = -1
    while len(moving) > before:  # a run may wait for a run that waits for a third
        before = len(moving)
        for task in starts:
            if task.holder is not None and not task.holder.stands and task.holder.run in moving:
                moving.add(task.run)
        if placed & moving and places is not None and places.capacity:
            moving |= waiting
    return moving


def _may_start(prospects: Prospects, task: Ready) -> bool:
    """Tell whether a ready task starts as soon as there is room and its files are free."""
    untested = {course.run for course in prospects.courses if course.untested}
    lacks = task.short or task.unable or task.missing
    hopeless = task.human or lacks or not task.whole or task.run in untested
    return prospects.drained is None and not hopeless


def _behind(prospects: Prospects, moving: set[str]) -> dict[str, set[str]]:
    """Map each run that does not move to the runs that wait for its files."""
    waiting: dict[str, set[str]] = {}
    for task in prospects.ready:
        if task.holder is not None and task.holder.run not in moving:
            waiting.setdefault(task.holder.run, set()).add(task.run)
    return waiting


def _spread(runs: frozenset[str], behind: Mapping[str, set[str]]) -> frozenset[str]:
    """Add the runs that wait for these runs, directly or through a third."""
    more = runs.union(*(behind.get(run, ()) for run in runs))
    return runs if more == runs else _spread(more, behind)


def _drained(prospects: Prospects) -> Iterator[AttentionItem]:
    if prospects.drained is not None:
        yield AttentionItem(
            subject="weft",
            text="is drained: no task starts",
            do=("weft drain --undo",),
            runs=frozenset(course.run for course in prospects.courses if not course.over),
            since=prospects.drained,
            kind="drained",
        )


def _gates(prospects: Prospects) -> Iterator[AttentionItem]:
    for course in prospects.courses:
        if course.gate:
            yield AttentionItem(
                subject=f"the gate of {course.run}",
                text=f"needs you: {first_line(course.gate)}",
                do=(f"weft resume {course.run}",),
                runs=frozenset({course.run}),
                kind="gate",
                about=course.run,
            )


def _stopped(prospects: Prospects) -> Iterator[AttentionItem]:
    for agent, reason in prospects.stopped.items():
        resource = f"agent:{agent}"
        yield AttentionItem(
            subject=f"agent {agent}",
            text=f"is stopped: {first_line(reason)}",
            do=(f"weft agents resume {agent}",),
            runs=frozenset(
                task.run for task in prospects.ready if resource in {s.resource for s in task.short}
            ),
            kind="agent",
            about=agent,
        )


def _limits(prospects: Prospects) -> Iterator[AttentionItem]:
    """Yield the limits in which no end of an attempt makes room."""
    stopped = {f"agent:{agent}" for agent in prospects.stopped}
    short: dict[str, list[tuple[str, Shortage]]] = {}
    for course in prospects.courses:
        for each in course.short if course.queued else ():
            short.setdefault(each.resource, []).append((course.run, each))
    for task in prospects.ready:
        for each in task.short:
            if each.resource in stopped:
                continue  # that is a need of its own
            if each.resource.startswith("agent:") and not each.capacity:
                yield _paused_agent(task, each.resource.removeprefix("agent:"))
            elif _is_owned(each.resource):
                yield _too_much(task, each)
            else:
                short.setdefault(each.resource, []).append((task.run, each))
    for resource, shortages in sorted(short.items()):
        least = min((each for _, each in shortages), key=lambda each: each.asked)
        runs = frozenset(run for run, _ in shortages)
        yield _used_up(least, runs) if is_consumable(resource) else _too_low(least, runs)


def _is_owned(resource: str) -> bool:
    """Tell whether a process or a file states the limit, so that `weft limits set` cannot."""
    return resource.startswith(("worker:", "host:", "agent:"))


def _used_up(short: Shortage, runs: frozenset[str]) -> AttentionItem:
    enough = math.ceil((short.used + short.asked) / _DOLLAR * 100) / 100
    run = short.resource.removeprefix("run:").removesuffix("/usd")
    return AttentionItem(
        subject=f"the budget of {run}",
        text=f"is empty: {dollars(short.used)} of {dollars(short.capacity)} is spent, and the next "
        f"attempt reserves {dollars(short.asked)}",
        do=(f"weft limits set {short.resource} {enough:.2f}",),
        runs=runs,
        kind="budget",
        about=short.resource,
        enough=round(enough * _DOLLAR),
    )


def _too_low(short: Shortage, runs: frozenset[str]) -> AttentionItem:
    usual = max(short.asked, DEFAULT_LIMITS.get(template_of(short.resource), 0))
    return AttentionItem(
        subject=f"the limit {short.resource}",
        text=f"is {short.capacity}: no task that needs {short.asked} of it starts",
        do=(f"weft limits set {short.resource} {usual}",),
        runs=runs,
        kind="limit",
        about=short.resource,
        enough=usual,
    )


def template_of(resource: str) -> str:
    """Return the name under which the limit of each run has its default."""
    kind, colon, rest = resource.partition(":")
    return f"{kind}/{rest.partition('/')[2]}" if colon else resource


def _paused_agent(task: Ready, agent: str) -> AttentionItem:
    return AttentionItem(
        subject=_subject(task),
        text=f"waits for agent {agent}, which `max_concurrency: 0` in .weft/agents/{agent}.md "
        "pauses; a higher number lets it start",
        do=(f"weft skip {_label(task)}", f"weft cancel {_label(task)}"),
        runs=frozenset({task.run}),
        kind="agent",
        task=task.task,
        about=agent,
    )


def _too_much(task: Ready, short: Shortage) -> AttentionItem:
    return AttentionItem(
        subject=_subject(task),
        text=f"asks for {short.asked} of {short.resource}, and there is no more than "
        f"{short.capacity}; only a worker that has more could do it",
        do=(f"weft skip {_label(task)}", f"weft cancel {_label(task)}"),
        runs=frozenset({task.run}),
        kind="worker",
        task=task.task,
    )


def _workers(prospects: Prospects, server: Callable[[], str]) -> Iterator[AttentionItem]:
    for task in prospects.ready:
        if task.unable:
            yield AttentionItem(
                subject=_subject(task),
                text=f"needs a worker that runs {task.unable}, and no present worker does",
                do=("weft agents", f"weft skip {_label(task)}"),
                runs=frozenset({task.run}),
                kind="worker",
                task=task.task,
            )
        if task.missing:
            yield _unequipped(task) if task.labelled else _unlabelled(task, server())


def _unequipped(task: Ready) -> AttentionItem:
    agents, labels = ", ".join(task.unequipped), describe_labels(task.labels)
    has = "label" if len(task.labels) == 1 else "labels"
    return AttentionItem(
        subject=_subject(task),
        text=f"needs a worker with {labels} that runs {agents}; {task.labelled} has the {has}, but "
        f"lacks a program, variable or sandbox of {agents}: its worker logs which; add it there",
        do=("weft agents", f"weft skip {_label(task)}"),
        runs=frozenset({task.run}),
        kind="worker",
        task=task.task,
    )


def _unlabelled(task: Ready, server: str) -> AttentionItem:
    text = f"needs a worker with {describe_labels(task.labels)}, and no present worker has "
    if task.missing == task.labels:
        text += "it" if len(task.labels) == 1 else "any of them"
    else:
        text += f"all of them: the nearest lacks {', '.join(task.missing)}"
    return AttentionItem(
        subject=_subject(task),
        text=text,
        do=(worker_command(task.labels, server), f"weft skip {_label(task)}"),
        runs=frozenset({task.run}),
        kind="worker",
        task=task.task,
    )


def _places(prospects: Prospects, moving: set[str]) -> Iterator[AttentionItem]:
    stopped = (course for course in prospects.courses if course.run not in moving)
    waiting = [course.run for course in stopped if course.waits]
    places = prospects.places
    if not waiting or places is None:
        return
    if not places.capacity:
        yield _too_low(Shortage("runs", 1, places.used, 0), frozenset(waiting))
        return
    placed = [course.run for course in prospects.courses if course.run and not course.waits]
    yield AttentionItem(
        subject="the limit runs",
        text=f"is full: {_some(waiting)} cannot start, and {_some(placed)} cannot go on without "
        "you",
        do=(f"weft limits set runs {places.used + 1}", "weft ps"),
        runs=frozenset(waiting),
        kind="limit",
        about="runs",
        enough=places.used + 1,
    )


def _tasks(prospects: Prospects) -> Iterator[AttentionItem]:
    kept_from: dict[int, set[str]] = {}
    for task in prospects.ready:
        if task.holder is not None:
            kept_from.setdefault(task.holder.task, set()).add(task.run)
    paused: dict[str, list[AskedWork]] = {}
    for asked in prospects.asked:
        if asked.state == "paused" and asked.run:
            paused.setdefault(asked.run, []).append(asked)
    for asked in prospects.asked:
        together = paused.get(asked.run, []) if asked.state == "paused" else []
        if len(together) < 2:
            yield _asked(asked, {asked.run} | kept_from.get(asked.task, set()))
        elif asked is together[0]:
            held = (kept_from.get(paused_task.task, set()) for paused_task in together)
            yield AttentionItem(
                subject=f"{len(together)} tasks of {asked.run}",
                text="are paused",
                do=(f"weft resume {asked.run}",),
                runs=frozenset({asked.run}.union(*held)),
                since=min(paused_task.since for paused_task in together),
                kind="paused",
                about=asked.run,
                path_seconds=max(paused_task.path_seconds for paused_task in together),
            )


def _asked(asked: AskedWork, runs: Iterable[str]) -> AttentionItem:
    name = _label(asked)
    do: tuple[str, ...] = (f"weft retry {name}", f"weft skip {name}")
    kind = "ended"
    match asked.state:
        case "blocked" if asked.outcome == ASKED:
            kind = "asked"
            text, do = f"asks you: {first_line(asked.reason)}", (f'weft answer {name} "…"',)
        case "blocked":
            kind = "blocked"
            text = f"needs you: {first_line(asked.reason) or 'no reason was given'}"
        case "paused":
            kind, text, do = "paused", "is paused", (f"weft resume {name}",)
        case "ready":
            kind = "question"
            text = f"asks you: {first_line(asked.title)}"
            do = (f"weft answer {name} --yes", f'weft answer {name} --no "…"')
        case "gating":
            kind = "review"
            text, do = f"waits for your review: {first_line(asked.title)}", (f"weft review {name}",)
        case _:
            text = f"is {state_word(asked.state)}, and other tasks need it"
    subject = _subject(asked)
    return AttentionItem(
        subject=subject,
        text=text,
        do=do,
        runs=frozenset(runs),
        since=asked.since,
        kind=kind,
        task=asked.task,
        about=name,
        path_seconds=asked.path_seconds,
    )


def _label(item: Ready | AskedWork) -> str:
    return task_label(item.task, item.run, item.name)


def _subject(item: Ready | AskedWork) -> str:
    return _label(item) if item.run else f"task {item.task}"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


class Decision(Struct, frozen=True, kw_only=True):
    item: AttentionItem
    task: Task | None
    behind: int  # tasks that cannot start before it
    options: tuple[str, ...] = ()  # answers to choose from


@reads
def list_decisions(store: Store, *, now: float) -> list[Decision]:
    """List the decisions, the most work behind them first."""
    items = read_attention(store, now=now).all
    numbers = [item.task for item in items if item.task is not None]
    tasks, _ = find_tasks(store, numbers)
    known = {task.id: task for task in tasks}
    behind, unfinished = _count_waiting(store, items)
    decisions = [
        Decision(
            item=item,
            task=known.get(item.task) if item.task is not None else None,
            behind=behind.get(item.task, 0)
            if item.task
            else sum(unfinished.get(run, 0) for run in item.runs),
            options=_options(store, item),
        )
        for item in items
    ]
    return sorted(decisions, key=lambda decision: -decision.behind)


def _options(store: Store, item: AttentionItem) -> tuple[str, ...]:
    if item.kind != "asked" or item.task is None:
        return ()
    return tuple(find_options(milestones(store, item.task)))


def find_options(events: Sequence[Event]) -> list[str]:
    """Return the answers to choose from of the last question."""
    asked = [event for event in events if event.kind == "attempt_finished"]
    return [str(option) for option in asked[-1].data.get("options", ())] if asked else []


def count_decisions(store: Store, *, now: float) -> int:
    return len(find_attention(read_prospects(store, now=now)).all)


def _count_waiting(
    store: Store, items: Sequence[AttentionItem]
) -> tuple[dict[int, int], dict[str, int]]:
    """Count the tasks behind each task that holds tasks up, and the unfinished tasks of runs."""
    behind: dict[int, int] = {}
    unfinished: dict[str, int] = {}
    for run in sorted({run for item in items for run in item.runs if run}):
        tasks = [task for task in list_run(store, run) if task.state not in _PAST]
        work = [task for task in tasks if task.request.kind is TaskKind.WORK]
        unfinished[run] = sum(task.state not in TERMINAL for task in work)
        for holdup in list_holdups(tasks, list_run_edges(store, run)):
            behind[holdup.holder.id] = len(holdup.waiting)
    return behind, unfinished
