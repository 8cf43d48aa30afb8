"""The reaper: frees leases whose holders are proved dead.

A lease past its deadline, or of a dead worker, is suspect; it still counts. A passed deadline alone
frees no lease. For a holder on this host, functions of the caller (`Proof`, `WorkerProof`) look at
its locks and processes. A holder on another host is dead if its heartbeat number stood still for T2
on the clock of this process; a member, who has no process, for the length of a lease.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

from weft.errors import find_passing_fault
from weft.model import Lease, LeaseState, Worker, WorkerKind
from weft.store import Store
from weft.store.leases import free_proved_dead, list_open, suspect_overdue
from weft.store.tasks import evict_overdue
from weft.store.workers import depart, find_workers, list_workers

log = logging.getLogger(__name__)

T = TypeVar("T")

Proof = Callable[[Lease], str | None]
"""Returns the proof that a lease's holder on this host is dead, or None without proof."""

WorkerProof = Callable[[Worker], str | None]
"""The same for a worker on this host."""


class Here(Struct, frozen=True, kw_only=True):
    """The host and boot whose processes this reaper can see."""

    host: str
    boot: str

    def sees(self, worker: Worker) -> bool:
        return worker.kind is WorkerKind.PROCESS and (worker.host, worker.boot) == (
            self.host,
            self.boot,
        )


class Silence:
    """The seconds for which each worker's heartbeat number has stood still, seen by this process.

    Measured on a clock that runs on while the machine is suspended (CLOCK_BOOTTIME), never by a
    comparison of wall clocks. A restarted reaper starts to measure anew.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}

    def of(self, worker: Worker, boottime: float) -> float:
        number, since = self._seen.get(worker.id, (None, boottime))
        if number != worker.heartbeat:
            self._seen[worker.id] = (worker.heartbeat, boottime)
            return 0.0
        return boottime - since

    def forget_all_but(self, workers: Iterable[Worker]) -> None:
        known = {worker.id for worker in workers}
        self._seen = {worker: seen for worker, seen in self._seen.items() if worker in known}


class Swept(Struct, frozen=True, kw_only=True):
    freed: tuple[int, ...]  # fences
    unjudged: Mapping[str, str]  # `worker w` or `lease 7` → the error of its proof


def sweep(
    store: Store,
    *,
    here: Here,
    silence: Silence,
    prove_worker_dead: WorkerProof,
    prove_dead: Proof,
    now: float,
    boottime: float,
) -> Swept:
    """Find dead workers, then free the leases that are proved abandoned.

    If a proof raises, its worker or lease stays as it is and the sweep goes on.
    """
    unjudged: dict[str, str] = {}
    for worker in list_workers(store, now=now):
        if here.sees(worker):
            death = _ask(prove_worker_dead, worker, f"worker {worker.id}", unjudged)
        else:
            death = _silent(store, worker, silence, boottime)
        if death is not None:
            log.info("worker %s is gone: %s", worker.id, death)
            depart(store, worker.id, now=now)
    if store.tuning.capacity_wait:
        evict_overdue(store, now=now)
    suspects = suspect_overdue(store, now=now)
    holders = find_workers(store, {lease.worker for lease in suspects if lease.worker}, now=now)
    silence.forget_all_but([*list_workers(store, now=now), *holders.values()])
    freed = []
    for lease in suspects:
        holder = holders.get(lease.worker or "")
        if holder is None:
            continue  # a run's lease ends with the run
        if here.sees(holder):
            proof = _ask(prove_dead, lease, f"lease {lease.fence}", unjudged)
        else:
            proof = _silent(store, holder, silence, boottime)
        if proof is not None and free_proved_dead(store, lease.fence, now=now, proof=proof):
            log.info("lease %s of %s freed: %s", lease.fence, lease.holder, proof)
            freed.append(lease.fence)
    return Swept(freed=tuple(freed), unjudged=unjudged)


def sweep_host(
    store: Store, here: Here, prove_worker_dead: WorkerProof, prove_dead: Proof, *, now: float
) -> None:
    """Find dead workers of this host and free their leases; leave workers of other hosts to home.

    Worker hosts use it: their tokens let them act for their own workers alone.
    """
    unjudged: dict[str, str] = {}
    for worker in filter(here.sees, list_workers(store, now=now)):
        if _ask(prove_worker_dead, worker, f"worker {worker.id}", unjudged) is not None:
            depart(store, worker.id, now=now)
    suspects = [lease for lease in list_open(store) if lease.state is LeaseState.SUSPECT]
    holders = find_workers(store, {lease.worker for lease in suspects if lease.worker}, now=now)
    for lease in suspects:
        holder = holders.get(lease.worker or "")
        if holder is None or not here.sees(holder):
            continue
        proof = _ask(prove_dead, lease, f"lease {lease.fence}", unjudged)
        if proof is not None:
            free_proved_dead(store, lease.fence, now=now, proof=proof)


def _ask(
    prove: Callable[[T], str | None], subject: T, name: str, unjudged: dict[str, str]
) -> str | None:
    try:
        return prove(subject)
    except Exception as error:
        # A proof looks at processes, locks and files of one subject, so its error concerns that
        # subject alone. Errors of the store are not caught.
        if fault := find_passing_fault(error):
            log.info("the proof of death has to wait for %s: %s", name, fault)
        else:
            log.warning("the proof of death failed for %s", name, exc_info=True)
        unjudged[name] = f"{type(error).__name__}: {error}"
        return None


def _silent(store: Store, worker: Worker, silence: Silence, boottime: float) -> str | None:
    still = silence.of(worker, boottime)
    # A member was told when its lease ends; it has no process that could outlive that.
    member = worker.kind is WorkerKind.API
    enough = store.tuning.lease if member else store.tuning.silence
    return f"no sign of life for {still:.0f} s" if still >= enough else None
