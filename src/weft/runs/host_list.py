"""The hosts of a store, each with its present workers, as commands and the page show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from weft.formats import count, duration
from weft.model import NO_CHECKS, Capacity, Limit, Worker, WorkerKind
from weft.store import Store
from weft.store.workers import list_workers


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
