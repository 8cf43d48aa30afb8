"""Workers: registration, signs of life, departure. Status is derived, never stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from weft.admission.capacity import status
from weft.config import Stated
from weft.errors import InputError, LimitsDiffer, NotFound, Refused
from weft.host_labels import check_labels
from weft.model import ONE_TASK, Capacity, NewWorker, Worker, WorkerKind
from weft.store import limit_table, row_records
from weft.store.database import Row, Transaction, encode, encode_keys
from weft.store.ledger import Ledger
from weft.store.store import reads, writes


@writes
def register(
    tx: Transaction, worker: NewWorker, *, now: float, stated: Mapping[str, Stated]
) -> None:
    """Register a worker, new or back, and set the limits it owns.

    Refuse a worker whose configured limits (`stated`) differ from the store's, whose times differ
    from those at work, or whose agent file gives another `max_concurrency` than the file of a
    present worker.
    """
    if worker.slots < 1:
        raise InputError(f"Worker {worker.id} needs at least 1 slot, not {worker.slots}.")
    limit_table.require_agreement(tx, stated)
    agree_on_times(tx, worker.id)
    _refuse_other_agent_files(tx, worker)
    _refuse_taken_name(tx, worker)
    tx.run(
        "register_worker",
        worker,
        name=worker.name or worker.id,
        agents=None if worker.agents is None else encode(_agents(worker)),
        repos=None if worker.repos is None else encode_keys(worker.repos),
        lacks=encode(worker.lacks),
        labels=encode(_check_labels(worker)),
        now=now,
    )
    own = f"worker {worker.id}"
    limit_table.own_limit(tx, f"worker:{worker.id}", worker.slots, owner=own, now=now)
    for name, amount in worker.host_limits.items():
        limit_table.own_limit(
            tx, f"host:{worker.host}/{name}", amount, owner=f"host {worker.host}", now=now
        )
    for agent in worker.agents or ():
        if not agent.source:
            continue  # a host that has the agent files from home states no limits
        limit_table.own_limit(
            tx, f"agent:{agent.name}", agent.max_concurrency, owner=agent.source, now=now
        )
    tx.event("worker_registered", now=now, worker=worker.id, slots=worker.slots)
    tx.wake()


def _check_labels(worker: NewWorker) -> tuple[str, ...]:
    try:
        return check_labels(worker.labels)
    except ValueError as wrong:
        raise InputError(f"Worker {worker.id} must state {wrong}.") from wrong


_TIMES = ("lease", "heartbeat", "gone_after", "drift", "kill_grace")


def agree_on_times(tx: Transaction, worker: str) -> None:
    """Require that all workers judge death by the same times; the first worker sets them.

    A reaper with a shorter patience than the watchdog beside an agent could free the lease of an
    agent that still runs.
    """
    mine = encode({name: float(getattr(tx.tuning, name)) for name in _TIMES})
    theirs = tx.value("times")
    if mine == theirs:
        return
    present = [row["id"] for row in tx.all("workers_present") if row["id"] != worker]
    at_work = present or [row["worker"] for row in tx.all("open_leases") if row["worker"]]
    if theirs != "{}" and at_work:
        stand = json.loads(theirs)
        differ = [name for name in _TIMES if stand[name] != getattr(tx.tuning, name)]
        differences = ", ".join(
            f"{name} = {stand[name]:g}, not {getattr(tx.tuning, name):g}" for name in differ
        )
        raise LimitsDiffer(
            f"Worker {at_work[0]} is at work with other times in [tuning] ({differences}); "
            "use the same ones, or wait until no worker is at work."
        )
    tx.run("set_times", tuning=mine)


def _refuse_taken_name(tx: Transaction, worker: NewWorker) -> None:
    """Refuse an id whose open leases belong to another host: they are judged there."""
    row = tx.one("worker", id=worker.id)
    if row is None or (row["host"], row["boot"]) == (worker.host, worker.boot):
        return
    if any(lease["worker"] == worker.id for lease in tx.all("open_leases")):
        raise Refused(
            f"Worker {worker.id} still has work under way on {row['host']}; take another name."
        )


def _agents(worker: NewWorker) -> dict[str, dict[str, object]]:
    return {
        agent.name: {"max": agent.max_concurrency, "source": agent.source, "able": agent.able}
        for agent in worker.agents or ()
    }


def _refuse_other_agent_files(tx: Transaction, worker: NewWorker) -> None:
    mine = _agents(worker)
    for row in tx.all("workers_present"):
        file_read = (
            row["agents"] is not None and row["token"] is None
        )  # members read no agent files
        theirs = row_records.agents(row["agents"]) if file_read else {}
        for name in mine.keys() & theirs.keys():
            agent = theirs[name]
            if not agent["source"] or not mine[name]["source"]:
                continue
            different = agent["max"] != mine[name]["max"]
            if row["id"] != worker.id and agent["source"] != mine[name]["source"] and different:
                raise LimitsDiffer(
                    f"Agent {name}: {mine[name]['source']} says max_concurrency "
                    f"{mine[name]['max']}, but worker {row['id']} reads {agent['max']} from "
                    f"{agent['source']}; make the two files agree."
                )


@writes
def heartbeat(tx: Transaction, worker: str, *, now: float) -> bool:
    """Record a sign of life; return False if the worker has departed and must register again."""
    return tx.count("heartbeat", id=worker, now=now) > 0


@writes
def depart(tx: Transaction, worker: str, *, now: float) -> None:
    """Record that a worker has left or was found dead. Its leases become suspect at once, not
    free."""
    if not tx.count("depart", id=worker, now=now):
        return
    tx.run("suspect_worker", worker=worker)
    tx.run("drop_limit", resource=f"worker:{worker}")
    row = tx.one("worker", id=worker)
    assert row is not None
    forget_empty_host(tx, row["host"])
    from weft.store.members import withdraw_all  # late: admission, which `weft ps` lacks

    withdraw_all(tx, worker, now=now)
    tx.event("worker_departed", now=now, worker=worker)
    tx.wake()


@writes
def ask_to_leave(tx: Transaction, host: str, boot: str, repo: str, *, now: float) -> list[str]:
    """Tell the processes of `weft worker` on a host to hand back their tasks and end; return the
    ids of those workers."""
    workers = [
        row["id"]
        for row in tx.all("workers_present")
        if row["alone"]
        and (row["host"], row["boot"]) == (host, boot)
        and (row["repos"] is None or repo in row_records.files(row["repos"]))
    ]
    for worker in workers:
        tx.event("worker_told_to_leave", now=now, worker=worker)
    tx.wake()
    return workers


def forget_empty_host(tx: Transaction, host: str) -> None:
    """Drop a host's limits with its last worker and lease; a worker that comes back states them
    again."""
    there = [row for row in tx.all("workers_present") if row["host"] == host]
    if not there and not any(lease["host"] == host for lease in tx.all("open_leases")):
        tx.run("drop_limits_of", owner=f"host {host}")


@reads
def list_workers(tx: Transaction, *, now: float) -> list[Worker]:
    """List the workers that have not left, with their capacity and status."""
    return _workers(tx, tx.all("workers_present"), now)


@reads
def list_serving(tx: Transaction, repo: str, *, now: float) -> list[Worker]:
    """List the workers that take the ready tasks of a repository, including those that may be
    dead."""
    rows = [
        row
        for row in tx.all("workers_present")
        if row["kind"] == WorkerKind.PROCESS
        and not row["name"].startswith(ONE_TASK)
        and (row["repos"] is None or repo in row_records.files(row["repos"]))
    ]
    return _workers(tx, rows, now)


def no_worker(worker: str) -> NotFound:
    return NotFound(f"There is no worker {worker}.")


@reads
def list_processes(tx: Transaction, host: str, boot: str) -> list[tuple[int, int]]:
    """Return the pid and start time of each worker process of a host that has not left."""
    rows = tx.all("processes_of_host", host=host, boot=boot)
    return [(row["pid"], int(row["pid_start"])) for row in rows]


@reads
def list_silent(tx: Transaction, *, now: float) -> list[Worker]:
    """Return worker processes that stopped, hang, or lost the store: their leases have run out."""
    return _workers(tx, [row for row in tx.all("workers_present") if _is_silent(tx, row, now)], now)


@reads
def get_worker(tx: Transaction, worker: str, *, now: float) -> Worker:
    row = tx.one("worker", id=worker)
    if row is None:
        raise no_worker(worker)
    use = tx.one("worker_use", resource=f"worker:{worker}")
    assert use is not None
    capacity = Capacity(current=use["used"] or 0, max=use["capacity"] or 0)
    return _worker(tx, row, capacity, now)


@reads
def find_workers(tx: Transaction, ids: Iterable[str], *, now: float) -> dict[str, Worker]:
    """Map ids to workers, including those that have left; unknown ids are missing."""
    rows = [tx.one("worker", id=worker) for worker in sorted(ids)]
    known = _workers(tx, [row for row in rows if row is not None], now)
    return {worker.id: worker for worker in known}


def _workers(tx: Transaction, rows: Sequence[Row], now: float) -> list[Worker]:
    if not rows:
        return []
    ledger, workers = Ledger(tx, now), []
    for row in rows:
        slots = f"worker:{row['id']}"
        used, most = ledger.used.get(slots, 0), ledger.nominal.get(slots, 0)
        workers.append(_worker(tx, row, Capacity(current=used, max=most), now))
    return workers


def _is_silent(tx: Transaction, row: Row, now: float) -> bool:
    """Tell whether a process that has not left gave no sign of life for the length of a lease."""
    present = row["kind"] == WorkerKind.PROCESS and row["departed"] is None
    return present and now - row["seen"] > tx.tuning.lease


def _worker(tx: Transaction, row: Row, capacity: Capacity, now: float) -> Worker:
    silent = now - row["seen"] > tx.tuning.gone_after
    since = row["seen"] if _is_silent(tx, row, now) else None
    return row_records.record(
        Worker,
        row,
        "lacks",
        "labels",
        left=row["departed"],
        capacity=capacity,
        status=status(used=capacity.current, offline=silent or row["departed"] is not None),
        silent_since=since,
        capabilities=() if row["token"] is None else row_records.files(row["agents"]),
    )
