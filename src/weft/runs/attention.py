"""What needs a person, and which runs cannot go on without one: a single rule for everybody.

`weft ps`, `weft run`, the live view and notifications all ask here. It is a pure decision over
what `store.overview` reads. What is merely full while others are at work, what is parked and
what eases with time needs nobody; what stays as it is whatever ends needs a person.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from weft.admission.capacity import Shortage, is_consumable
from weft.config import DEFAULT_LIMITS
from weft.formats import clock, dollars, duration, first_line
from weft.model import Worker
from weft.store import Store
from weft.store.overview import AskedWork, Prospects, Ready, read_prospects

_DOLLAR: Final = 1_000_000
_NAMES: Final = 6  # of many runs


class AttentionItem(Struct, frozen=True, kw_only=True):
    """One thing a person is needed for. Subject and text together are a sentence."""

    subject: str
    text: str
    do: tuple[str, ...]  # commands, any of which helps
    runs: frozenset[str]  # whom it holds up; "": tasks of no run
    since: float | None = None

    def __str__(self) -> str:
        return f"{self.subject} {self.text} ({' or '.join(f'`{one}`' for one in self.do)})"


class Attention(Struct, frozen=True, kw_only=True):
    all: tuple[AttentionItem, ...]
    stuck: frozenset[str]  # runs of which nothing can go on without a person

    def of(self, run: str) -> tuple[AttentionItem, ...]:
        return tuple(need for need in self.all if run in need.runs)


def read_attention(store: Store, *, now: float) -> Attention:
    return find_attention(read_prospects(store, now=now))


def as_dict(need: AttentionItem) -> dict[str, Any]:
    """For programs."""
    return {"subject": need.subject, "text": need.text, "do": list(need.do)}


def find_attention(prospects: Prospects) -> Attention:
    moving = _moving(prospects)
    found = [
        *_drained(prospects),
        *_gates(prospects),
        *_stopped(prospects),
        *_limits(prospects),
        *_workers(prospects),
        *_places(prospects, moving),
        *_tasks(prospects),
    ]
    behind = _behind(prospects, moving)
    return Attention(
        all=tuple(replace(need, runs=_spread(need.runs, behind)) for need in found),
        stuck=frozenset(
            one.run for one in prospects.courses if one.run and not one.over
        ).difference(moving),
    )


def _moving(prospects: Prospects) -> set[str]:
    """The runs of which something changes by itself; "" stands for what belongs to none."""
    moving = {
        one.run
        for one in prospects.courses
        if one.at_work
        or one.comes_back
        or (one.landing and not one.gate)
        or (one.queued and not one.gate and not one.short)
        or (one.over and not one.waits)
    }
    starts = [one for one in prospects.ready if _may_start(prospects, one)]
    moving |= {one.run for one in starts if one.holder is None}
    waiting = {one.run for one in prospects.courses if one.waits}
    placed = {one.run for one in prospects.courses if one.run} - waiting
    places = prospects.places
    if places is None or places.used < places.capacity:
        moving |= waiting
    before = -1
    while len(moving) > before:  # one waits for another, and that one for a third
        before = len(moving)
        for one in starts:
            if one.holder is not None and not one.holder.stands and one.holder.run in moving:
                moving.add(one.run)
        if placed & moving and places is not None and places.capacity:
            moving |= waiting
    return moving


def _may_start(prospects: Prospects, one: Ready) -> bool:
    """Whether ready tasks start as soon as there is room and their files are free."""
    hopeless = one.human or one.short or one.unable or not one.whole
    return prospects.drained is None and not hopeless


def _behind(prospects: Prospects, moving: set[str]) -> dict[str, set[str]]:
    """Runs that wait for files of others that do not move, by those others."""
    found: dict[str, set[str]] = {}
    for one in prospects.ready:
        if one.holder is not None and one.holder.run not in moving:
            found.setdefault(one.holder.run, set()).add(one.run)
    return found


def _spread(runs: frozenset[str], behind: Mapping[str, set[str]]) -> frozenset[str]:
    """These runs, and all that wait for them, be it at second hand."""
    more = runs.union(*(behind.get(run, ()) for run in runs))
    return runs if more == runs else _spread(more, behind)


def _drained(prospects: Prospects) -> Iterator[AttentionItem]:
    if prospects.drained is not None:
        yield AttentionItem(
            subject="weft",
            text="is drained: nothing starts",
            do=("weft drain --undo",),
            runs=frozenset(one.run for one in prospects.courses if not one.over),
            since=prospects.drained,
        )


def _gates(prospects: Prospects) -> Iterator[AttentionItem]:
    for one in prospects.courses:
        if one.gate:
            yield AttentionItem(
                subject=f"the gate of {one.run}",
                text=f"waits for you: {first_line(one.gate)}",
                do=(f"weft resume {one.run}",),
                runs=frozenset({one.run}),
            )


def _stopped(prospects: Prospects) -> Iterator[AttentionItem]:
    for agent, reason in prospects.stopped.items():
        resource = f"agent:{agent}"
        yield AttentionItem(
            subject=f"agent {agent}",
            text=f"is stopped: {first_line(reason)}",
            do=(f"weft agents resume {agent}",),
            runs=frozenset(
                one.run for one in prospects.ready if resource in {s.resource for s in one.short}
            ),
        )


def _limits(prospects: Prospects) -> Iterator[AttentionItem]:
    """Limits that nothing that ends makes room in."""
    stopped = {f"agent:{one}" for one in prospects.stopped}
    short: dict[str, list[tuple[str, Shortage]]] = {}
    for course in prospects.courses:
        for each in course.short if course.queued else ():
            short.setdefault(each.resource, []).append((course.run, each))
    for one in prospects.ready:
        for each in one.short:
            if each.resource in stopped:
                continue  # that is a need of its own
            if _is_owned(each.resource):
                yield _too_much(one, each)
            else:
                short.setdefault(each.resource, []).append((one.run, each))
    for resource, found in sorted(short.items()):
        least = min((each for _, each in found), key=lambda each: each.asked)
        runs = frozenset(run for run, _ in found)
        yield _used_up(least, runs) if is_consumable(resource) else _too_low(least, runs)


def _is_owned(resource: str) -> bool:
    """Whether a process or a file states it, so that nobody else can set it."""
    return resource.startswith(("worker:", "host:", "agent:"))


def _used_up(short: Shortage, runs: frozenset[str]) -> AttentionItem:
    enough = math.ceil((short.used + short.asked) / _DOLLAR * 100) / 100
    run = short.resource.removeprefix("run:").removesuffix("/usd")
    return AttentionItem(
        subject=f"the budget of {run}",
        text=f"is used up: {dollars(short.used)} of {dollars(short.capacity)} is spent, and the "
        f"next attempt sets {dollars(short.asked)} aside",
        do=(f"weft limits set {short.resource} {enough:.2f}",),
        runs=runs,
    )


def _too_low(short: Shortage, runs: frozenset[str]) -> AttentionItem:
    what = f"{short.asked} of it" if short.capacity else "of it"
    usual = max(short.asked, DEFAULT_LIMITS.get(_template(short.resource), 0))
    return AttentionItem(
        subject=f"the limit {short.resource}",
        text=f"is {short.capacity}: nothing that takes {what} starts",
        do=(f"weft limits set {short.resource} {usual}",),
        runs=runs,
    )


def _template(resource: str) -> str:
    """The name under which the limit of each run has its default."""
    kind, colon, rest = resource.partition(":")
    return f"{kind}/{rest.partition('/')[2]}" if colon else resource


def _too_much(one: Ready, short: Shortage) -> AttentionItem:
    return AttentionItem(
        subject=_called(one.task, one.run, one.name),
        text=f"asks for {short.asked} of {short.resource}, and there is no more than "
        f"{short.capacity}; only a worker that has more could do it",
        do=(f"weft skip {one.task}", f"weft cancel {one.task}"),
        runs=frozenset({one.run}),
    )


def _workers(prospects: Prospects) -> Iterator[AttentionItem]:
    for one in prospects.ready:
        if one.unable:
            yield AttentionItem(
                subject=_called(one.task, one.run, one.name),
                text=f"needs a worker that runs {one.unable}, and none of those present does",
                do=("weft agents", f"weft skip {one.task}"),
                runs=frozenset({one.run}),
            )


def _places(prospects: Prospects, moving: set[str]) -> Iterator[AttentionItem]:
    waiting = [one.run for one in prospects.courses if one.waits and one.run not in moving]
    places = prospects.places
    if not waiting or places is None:
        return
    if not places.capacity:
        yield _too_low(Shortage("runs", 1, places.used, 0), frozenset(waiting))
        return
    placed = [one.run for one in prospects.courses if one.run and not one.waits]
    yield AttentionItem(
        subject="the limit runs",
        text=f"is full: {_some(waiting)} cannot start, and {_some(placed)} cannot go on without "
        "you",
        do=(f"weft limits set runs {places.used + 1}", "weft ps"),
        runs=frozenset(waiting),
    )


def _tasks(prospects: Prospects) -> Iterator[AttentionItem]:
    kept_from: dict[int, set[str]] = {}
    for one in prospects.ready:
        if one.holder is not None:
            kept_from.setdefault(one.holder.task, set()).add(one.run)
    paused: dict[str, list[AskedWork]] = {}
    for asked in prospects.asked:
        if asked.state == "paused" and asked.run:
            paused.setdefault(asked.run, []).append(asked)
    for asked in prospects.asked:
        together = paused.get(asked.run, []) if asked.state == "paused" else []
        if len(together) < 2:
            yield _asked(asked, {asked.run} | kept_from.get(asked.task, set()))
        elif asked is together[0]:
            held = (kept_from.get(one.task, set()) for one in together)
            yield AttentionItem(
                subject=f"{len(together)} tasks of {asked.run}",
                text="are paused",
                do=(f"weft resume {asked.run}",),
                runs=frozenset({asked.run}.union(*held)),
            )


def _asked(one: AskedWork, runs: Iterable[str]) -> AttentionItem:
    do: tuple[str, ...] = (f"weft retry {one.task}", f"weft skip {one.task}")
    match one.state:
        case "blocked":
            text = f"is blocked: {first_line(one.reason) or 'nobody said why'}"
        case "paused":
            text, do = "is paused", (f"weft resume {one.task}",)
        case "ready":
            text = f"asks you: {first_line(one.title)}"
            do = (f"weft approve {one.task}", f'weft reject {one.task} "…"')
        case _:
            text = f"is {one.state}, and others need it"
    subject = _called(one.task, one.run, one.name)
    return AttentionItem(subject=subject, text=text, do=do, runs=frozenset(runs))


def _called(task: int, run: str, name: str) -> str:
    return f"{task} {run}/{name}" if run else f"task {task}"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def explain_silence(worker: Worker, now: float) -> str:
    """Return since when a worker is silent, with the commands that end the silence."""
    assert worker.silent_since is not None
    held = worker.capacity.current
    holds = f", with {held} task{'' if held == 1 else 's'} under way" if held else ""
    return (
        f"worker {worker.id} is silent since {clock(worker.silent_since)}, for "
        f"{duration(now - worker.silent_since)}{holds}; if it was stopped on {worker.host}, "
        f"`kill -CONT {worker.pid}` lets it go on, and `kill -9 {worker.pid}` gives back its tasks"
    )
