"""Checks under way, and orders of gates for checks on worker hosts.

The holder of a gate orders the check of a tree; a worker of a host takes the order as a lease of
the kind `check`, and reports the result under that fence. A result is wanted until the gate
withdraws the order or has no holder any more. If a lease ends without a result, the order can be
taken again.

The output of attempts stays on its host, and no connection leads into a host: a reader leaves a
request, and a worker of the host answers it at its next look. A request and its answer are kept for
a minute.
"""

from __future__ import annotations

import json
import secrets
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from weft.candidate_records import CheckOrder, HostResult, NewCheckOrder
from weft.errors import InputError, NotFound, Refused, StaleFence
from weft.model import HERE
from weft.store import row_records
from weft.store.database import Row, Transaction, encode, encode_keys
from weft.store.leases import take
from weft.store.ledger import Ledger, end_lease, is_wanted, require_holder
from weft.store.row_records import names
from weft.store.store import reads, writes

_DEMAND: Final = {f"worker:{HERE}": 1, "requests": 1}
_OUTPUT: Final = 32_000  # characters of a result's output; hosts send half of that
_REASON: Final = 2000
_REPORTED: Final = "reported"
_LEAST: Final = 0.001  # seconds; 0 stands for a verdict that was taken over
_RESULT: Final = msgspec.json.Decoder(HostResult)


class CheckHosts(Struct, frozen=True, kw_only=True):
    """The number of workers that take checks of a repository, and of their free slots."""

    workers: int = 0
    free: int = 0  # slots that no attempt, check or order needs


class OrderState(Struct, frozen=True, kw_only=True):
    """An order as its gate sees it."""

    number: int
    taken: bool
    declined: str = ""  # the reason; '': it is not declined
    host: str = ""
    result: HostResult | None = None


@reads
def count_hosts(tx: Transaction, run: str, machine: str, *, now: float) -> CheckHosts:
    """Count the workers that take checks of a run's repository, and their free slots."""
    rows = tx.all("check_workers", machine=machine)
    if not rows:
        return CheckHosts()
    run_row = tx.one("run", id=run)
    repo = "" if run_row is None else str(run_row["repo"])
    workers = [
        row["id"]
        for row in rows
        if now - row["seen"] <= tx.tuning.lease
        and (row["repos"] is None or repo in names(row["repos"]))
    ]
    ledger = Ledger(tx, now)
    slots = [f"worker:{worker}" for worker in workers]
    free = sum(max(0, ledger.nominal.get(slot, 0) - ledger.used.get(slot, 0)) for slot in slots)
    untaken = tx.all("untaken_check_orders", machine=machine, repos=encode_keys([repo]))
    return CheckHosts(workers=len(workers), free=max(0, free - len(untaken)))


@writes
def order_check(tx: Transaction, gate: int, run: str, order: NewCheckOrder, *, now: float) -> int:
    """Order a check on another host; return the number of the order."""
    require_holder(tx, gate, run)
    tx.run("forget_check_orders")
    number = Ledger(tx, now).next_fence()
    tx.run(
        "add_check_order",
        order,
        number=number,
        gate=gate,
        run=run,
        commands=encode(order.commands),
        entries=encode(order.entries),
    )
    tx.event("check_ordered", now=now, run=run, order=number, tree=order.tree)
    tx.wake()
    return number


@reads
def find_order(tx: Transaction, worker: str) -> int | None:
    """Find an order that a worker may take; return its number."""
    row = _find_order(tx, worker)
    return None if row is None else int(row["number"])


@writes
def take_check(tx: Transaction, worker: str, *, now: float) -> CheckOrder | None:
    """Lease the oldest order that this worker may take, if it has a free slot."""
    row = _find_order(tx, worker)
    if row is None:
        return None
    run, entries, tree = row["run"], json.loads(row["entries"]), row["tree"]
    fence = take(tx, "check", run, _DEMAND, worker=worker, now=now, entries=entries, tree=tree)
    if fence is None:
        return None
    tx.run("assign_check_order", number=row["number"], fence=fence)
    return CheckOrder(
        fence=fence,
        run=run,
        tree=row["tree"],
        head=row["head"],
        base=row["base"],
        commands=tuple(map(tuple, json.loads(row["commands"]))),
    )


def _find_order(tx: Transaction, worker: str) -> Row | None:
    row = tx.one("worker", id=worker)
    if row is None or not row["checks"] or row["repos"] is None:
        return None
    orders = tx.all("untaken_check_orders", machine=row["checks"], repos=row["repos"])
    return next(iter(orders), None)


@writes
def report_check(tx: Transaction, fence: int, result: HostResult, *, now: float) -> None:
    """Record the result of an ordered check. The same call again has no effect.

    Refuse a lease that has ended, an order that is not wanted any more, and the result of another
    tree.
    """
    lease = tx.one("lease", fence=fence)
    if lease is not None and lease["ended"] == _REPORTED:
        return
    order = _require_wanted(tx, fence)
    if result.tree != order["tree"]:
        raise Refused(f"Tree {order['tree']} was to be checked, not {result.tree}.")
    commands = len(json.loads(order["commands"]))
    if not 0 <= result.ran <= commands or (result.passed and result.ran < commands):
        raise Refused(f"The check of tree {order['tree']} has {commands} commands.")
    assert lease is not None
    age = now - lease["granted"]
    seconds = result.seconds if 0 < result.seconds < age else max(age, _LEAST)
    output = tx.redact(result.output[-_OUTPUT:])
    _answer(tx, order, "done", _encode(replace(result, seconds=seconds, output=output)))
    end_lease(tx, lease, _REPORTED, now=now)


@writes
def decline_check(tx: Transaction, fence: int, reason: str, *, now: float) -> None:
    """Hand an order back that this host cannot carry out: home runs the check."""
    order = _require_wanted(tx, fence)
    _answer(tx, order, "declined", tx.redact(reason[:_REASON]) or "no reason")
    lease = tx.one("lease", fence=fence)
    assert lease is not None
    end_lease(tx, lease, "declined", now=now)


def _require_wanted(tx: Transaction, fence: int) -> Row:
    """Return the order whose check has this fence.

    Raise `StaleFence` if the lease of the check has ended or no gate waits for the result.
    """
    lease, order = tx.one("lease", fence=fence), tx.one("check_order_under", fence=fence)
    if lease is None or lease["state"] == "released" or order is None or not is_wanted(order):
        raise StaleFence(f"Fence {fence} is no longer current: no gate waits for its check.")
    return order


@reads
def find_ordered_head(tx: Transaction, fence: int) -> str | None:
    """Return the commit that a worker host checks under this fence; None: no order has it."""
    order = tx.one("check_order_under", fence=fence)
    return None if order is None else str(order["head"])


def is_ordered(tx: Transaction, fence: int) -> bool:
    """Return True if a worker host runs the check with this fence, False if home runs it."""
    return tx.one("check_order_under", fence=fence) is not None


def _encode(result: HostResult) -> str:
    return encode(msgspec.to_builtins(result))


def _answer(tx: Transaction, order: Row, state: str, result: str) -> None:
    tx.run("answer_check_order", number=order["number"], state=state, result=result)


@reads
def list_orders(tx: Transaction, gate: int) -> list[OrderState]:
    """List the orders of a gate."""
    return [
        OrderState(
            number=row["number"],
            taken=row["lease_state"] in ("held", "suspect"),
            host=row["host"] or "",
            declined=row["result"] if row["state"] == "declined" else "",
            result=_RESULT.decode(row["result"]) if row["state"] == "done" else None,
        )
        for row in tx.all("check_orders_of", gate=gate)
    ]


@writes
def withdraw_order(tx: Transaction, gate: int, number: int, *, now: float) -> None:
    """End an order; a worker that runs its check stops."""
    if tx.count("withdraw_check_order", gate=gate, number=number):
        tx.event("check_withdrawn", now=now, order=number)
        tx.wake()


@writes
def take_back_order(tx: Transaction, gate: int, number: int) -> bool:
    """End an order that no worker runs; return False if a worker runs it, or has answered it."""
    return tx.count("take_back_check_order", gate=gate, number=number) > 0


_LATELY: Final = 5000  # events that are searched for the entries of a check


class OpenCheck(Struct, frozen=True, kw_only=True):
    """A check under way."""

    since: float
    entries: tuple[str, ...]  # empty: not known any more
    fence: int = 0
    host: str = ""  # the worker host that runs it; '': home


@reads
def list_checks(tx: Transaction, run: str) -> list[OpenCheck]:
    """List the checks of a run that are under way, oldest first."""
    taken = [json.loads(row["data"]) for row in tx.all("lately_taken", most=_LATELY)]
    entries = {event["fence"]: tuple(event["entries"]) for event in taken}
    return [
        OpenCheck(
            since=lease.granted,
            entries=entries.get(lease.fence, ()),
            fence=lease.fence,
            host=(lease.host or "") if is_ordered(tx, lease.fence) else "",
        )
        for lease in map(row_records.lease, tx.all("open_leases_held_by", kind="check", holder=run))
    ]


LARGEST: Final = 4 << 20  # characters of an answer
_KEPT: Final = 60.0  # seconds
_MOST: Final = 200  # requests


class OutputRequest(Struct, frozen=True, kw_only=True):
    id: str
    host: str
    task: int
    attempt: int
    stream: str  # stdout or stderr
    start: int  # offset of the first byte
    ended: bool  # the attempt has ended: its last line may lack a newline


@writes
def request_output(
    tx: Transaction,
    *,
    host: str,
    task: int,
    attempt: int,
    stream: str,
    start: int,
    ended: bool,
    now: float,
) -> str:
    """Ask a host for output; return the id of the request."""
    tx.run("forget_output_requests", before=now - _KEPT)
    if tx.value("output_request_count") >= _MOST:
        raise Refused(f"{_MOST} requests for output are open already; try again in a minute.")
    id = secrets.token_hex(16)
    tx.run(
        "add_output_request",
        id=id,
        host=host,
        task=task,
        attempt=attempt,
        stream=stream,
        start=start,
        ended=ended,
        asked=now,
    )
    return id


@reads
def list_output_requests(tx: Transaction, host: str) -> list[OutputRequest]:
    """List the unanswered requests to a host, oldest first."""
    return [
        row_records.record(OutputRequest, row) for row in tx.all("open_output_requests", host=host)
    ]


@reads
def get_output_request(tx: Transaction, id: str) -> OutputRequest:
    return row_records.record(OutputRequest, _row(tx, id))


@writes
def answer_output_request(tx: Transaction, id: str, piece: str) -> bool:
    """Store the answer to a request; return False if it is gone or has an answer."""
    if len(piece) > LARGEST:
        raise InputError(f"A part of an output has at most {LARGEST} characters.")
    return bool(tx.count("answer_output_request", id=id, piece=piece))


@reads
def find_output_answer(tx: Transaction, id: str) -> str | None:
    """Return the answer to a request; None while there is none."""
    piece: str | None = _row(tx, id)["piece"]
    return piece


def _row(tx: Transaction, id: str) -> Row:
    row = tx.one("output_request", id=id)
    if row is None:
        raise NotFound("There is no such request for output; it may be too old.")
    return row
