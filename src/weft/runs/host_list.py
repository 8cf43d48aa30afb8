"""The hosts and workers of a store: their slots, labels and lacks, and the living among them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from weft.formats import clock, count, duration
from weft.model import NO_CHECKS, Attempt, Capacity, Limit, Worker, WorkerKind
from weft.store import Store
from weft.store.workers import find_workers, list_serving, list_workers

if TYPE_CHECKING:
    from weft.process.process_identity import ProcessPlace


class HostStatus(Struct, frozen=True, kw_only=True):
    host: str
    workers: Mapping[str, Capacity]  # slots of each worker, by id
    slots: Capacity  # of all workers together
    labels: tuple[str, ...]  # of any worker
    worker_labels: Mapping[str, tuple[str, ...]]  # of each worker, by id
    gates: bool  # it serves gates, with their checks
    checks: bool  # it takes checks of gates
    seen: float  # the latest sign of life
    lacks: Mapping[str, str]  # the program, variables or sandbox that agents lack there, by agent

    @property
    def duties(self) -> str:
        """The work that it takes besides tasks."""
        checks = "checks" if self.checks else "no checks"
        return f"gates, {checks}" if self.gates else checks


def read_hosts(store: Store, *, now: float) -> list[HostStatus]:
    """List the hosts that have workers; members of the swarm have none."""
    return group_by_host(list_workers(store, now=now))


def group_by_host(workers: Iterable[Worker]) -> list[HostStatus]:
    by_host: dict[str, list[Worker]] = {}
    for worker in workers:
        if worker.kind is WorkerKind.PROCESS:
            by_host.setdefault(worker.host, []).append(worker)
    return [_host(host, there) for host, there in sorted(by_host.items())]


def _host(host: str, workers: Sequence[Worker]) -> HostStatus:
    return HostStatus(
        host=host,
        workers={worker.id: worker.capacity for worker in workers},
        slots=Capacity(
            current=sum(worker.capacity.current for worker in workers),
            max=sum(worker.capacity.max for worker in workers),
        ),
        labels=tuple(sorted({label for worker in workers for label in worker.labels})),
        worker_labels={worker.id: tuple(sorted(worker.labels)) for worker in workers},
        gates=any(worker.gates for worker in workers),
        checks=any(map(_takes_checks, workers)),
        seen=max(worker.seen for worker in workers),
        lacks={name: lack for worker in workers for name, lack in worker.lacks.items()},
    )


def _takes_checks(worker: Worker) -> bool:
    return worker.checks != NO_CHECKS if worker.gates else bool(worker.checks)


def as_dict(status: HostStatus) -> dict[str, Any]:
    fields = asdict(status)
    labels = fields.pop("worker_labels")
    workers = [
        {"worker": id, **asdict(slots), "labels": list(labels[id])}
        for id, slots in status.workers.items()
    ]
    return {**fields, "workers": workers, "slots": asdict(status.slots)}


def describe_host_labels(status: HostStatus) -> str:
    """Return the labels of a host's workers; where workers differ, with the slots that have them.

    No worker of a host with `gpu (2 slots); arm64 (1 slot)` takes a task that needs both.
    """
    slots: Counter[tuple[str, ...]] = Counter()
    for id, labels in status.worker_labels.items():
        slots[labels] += status.workers[id].max
    if len(slots) == 1:
        return ", ".join(*slots)
    return "; ".join(
        f"{', '.join(labels) or 'no label'} ({count(number, 'slot')})"
        for labels, number in slots.items()
    )


def describe_seen(status: HostStatus, now: float) -> str:
    return f"seen {duration(max(0.0, now - status.seen))} ago"


def describe_limit(status: HostStatus, name: str, limits: Iterable[Limit]) -> str:
    """Return the use of a limit of a host, such as `0 of 31,000`; empty if it has none."""
    resource = f"host:{status.host}/{name}"
    limit = next((limit for limit in limits if limit.resource == resource), None)
    return "" if limit is None else f"{limit.used:,} of {limit.effective:,}"


def list_lacks(hosts: Iterable[HostStatus]) -> Iterator[str]:
    """Yield sentences about agents that lack a program, a variable or a sandbox on a host."""
    for status in hosts:
        yield from (f"{status.host}: {lack}." for lack in describe_lacks(status.lacks))


def describe_lacks(lacks: Mapping[str, str]) -> Iterator[str]:
    """Yield each lack once, with the agents that it is for."""
    agents: dict[str, list[str]] = {}
    for name, lack in sorted(lacks.items()):
        agents.setdefault(lack, []).append(name)
    yield from (f"{lack} (for {', '.join(names)})" for lack, names in agents.items())


def find_hosts(store: Store, attempts: Iterable[Attempt], *, now: float) -> dict[str, str]:
    """Map workers of attempts to the names of their worker hosts, without the workers of home."""
    workers = find_workers(store, {attempt.worker for attempt in attempts}, now=now)
    return {
        id: worker.host
        for id, worker in workers.items()
        if worker.kind is WorkerKind.PROCESS and not worker.gates
    }


def is_served(store: Store, repo: str) -> bool:
    """Tell whether a living process takes the ready tasks of a repository and serves its gates.

    A killed process of this host does not count, even before the store knows of its death. A silent
    process, such as one stopped by Ctrl-Z, does not count either.
    """
    from weft.process.process_identity import get_place  # late: its imports take time

    boot = get_place().boot
    workers = list_serving(store, repo, now=time.time())
    return any(worker.gates and _lives(worker, boot) for worker in workers)


def _lives(worker: Worker, boot: str) -> bool:
    if worker.silent_since is not None:
        return False
    return worker.boot != boot or not is_gone(worker)


def is_dead_here(worker: Worker) -> bool:
    """Tell whether a worker was a process of this host that has ended."""
    from weft.process.process_identity import get_place  # late: its imports take time

    return worker.boot == get_place().boot and is_gone(worker)


def is_gone(worker: Worker) -> bool:
    """Tell whether the process of a worker of this host and boot has ended."""
    if worker.pid is None or worker.pid_start is None:
        return False
    from weft.process.process_table import Process, is_alive  # late: its imports take time

    return not is_alive(Process(worker.pid, int(worker.pid_start)))


class SilenceText(Struct, frozen=True, kw_only=True):
    """A silent worker, and the advice that ends the silence."""

    fact: str
    advice: str


def explain_silence(worker: Worker, here: ProcessPlace, *, gone: bool = False) -> SilenceText:
    """Explain the silence of a worker to a person at a place: a pid means nothing elsewhere.

    `gone`: its process has ended.
    """
    assert worker.silent_since is not None
    held = worker.capacity.current
    holds = f", with {count(held, 'task')}" if held else ""
    fact = f"worker {worker.id} has been silent since {clock(worker.silent_since)}{holds}"
    if gone:
        fact = f"the weft process {worker.pid} has ended without a word{holds}"
        advice = "the next weft that works here takes over: `weft run --resume RUN`, `weft worker`"
    elif (worker.host, worker.boot) == (here.host, here.boot):
        advice = (
            f"if it was stopped, `kill -CONT {worker.pid}` lets it go on, and "
            f"`kill -9 {worker.pid}` gives back its tasks"
        )
    else:
        advice = (
            f"look on {worker.host} whether it runs and reaches home; if not, its tasks start "
            "elsewhere soon"
        )
    return SilenceText(fact=fact, advice=advice)
