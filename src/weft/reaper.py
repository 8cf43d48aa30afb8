"""The reaper: turns what was abandoned back into capacity, on proof and never on time alone.

A lease past its deadline, or whose worker was found dead, is suspect and still counts. It
is freed when its holder is proved dead. How that is proved depends on where the holder is:
here, the injected check looks at locks and processes; elsewhere, the only evidence is that
its heartbeat number stood still for T2 on this process's own clock. Agents registered over
the API have no process to look at and are judged by their silence as well.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from weft.model import Lease, Worker, WorkerKind
from weft.store import Store
from weft.store.leases import free_proved_dead, suspect_overdue
from weft.store.workers import depart, find_workers, list_workers

log = logging.getLogger(__name__)

Proof = Callable[[Lease], str | None]
"""Says how a lease's holder on this host was proved dead, or None if that is not proved."""

WorkerProof = Callable[[Worker], str | None]
"""The same for a worker on this host."""


@dataclass(frozen=True, kw_only=True)
class Here:
    """Whose processes this reaper can see: those of one boot and one pid namespace."""

    host: str
    boot: str

    def sees(self, worker: Worker) -> bool:
        return worker.kind is WorkerKind.PROCESS and (worker.host, worker.boot) == (
            self.host,
            self.boot,
        )


class Silence:
    """How long each worker's heartbeat number has stood still, as seen by this process.

    Measured on a clock that runs on while the machine is suspended (CLOCK_BOOTTIME), never
    by comparing wall clocks. A restarted reaper starts to watch anew.
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


def sweep(
    store: Store,
    *,
    here: Here,
    silence: Silence,
    prove_worker_dead: WorkerProof,
    prove_dead: Proof,
    now: float,
    boottime: float,
) -> list[int]:
    """Find dead workers, then free what can be proved abandoned; returns the freed fences."""
    for worker in list_workers(store, now=now):
        found = _found_dead(store, worker, here, silence, prove_worker_dead, boottime)
        if found is not None:
            log.info("worker %s is gone: %s", worker.id, found)
            depart(store, worker.id, now=now)
    suspects = suspect_overdue(store, now=now)
    holders = find_workers(store, {lease.worker for lease in suspects if lease.worker}, now=now)
    silence.forget_all_but([*list_workers(store, now=now), *holders.values()])
    freed = []
    for lease in suspects:
        proof = _proof(store, lease, holders, here, silence, prove_dead, boottime)
        if proof is not None and free_proved_dead(store, lease.fence, now=now, proof=proof):
            log.info("lease %s of %s freed: %s", lease.fence, lease.holder, proof)
            freed.append(lease.fence)
    return freed


def _found_dead(
    store: Store,
    worker: Worker,
    here: Here,
    silence: Silence,
    prove: WorkerProof,
    boottime: float,
) -> str | None:
    if here.sees(worker):
        return prove(worker)
    return _silent(store, worker, silence, boottime)


def _proof(
    store: Store,
    lease: Lease,
    holders: dict[str, Worker],
    here: Here,
    silence: Silence,
    prove: Proof,
    boottime: float,
) -> str | None:
    holder = holders.get(lease.worker or "")
    if holder is None:
        return None  # a run's lease ends with the run
    if here.sees(holder):
        return prove(lease)
    return _silent(store, holder, silence, boottime)


def _silent(store: Store, worker: Worker, silence: Silence, boottime: float) -> str | None:
    still = silence.of(worker, boottime)
    enough = store.tuning.silence
    return f"no sign of life for {still:.0f} s" if still >= enough else None
