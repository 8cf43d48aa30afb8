"""Limits and stopped agents.

A new store takes its limits from the configuration of the first process that opens it. Owned limits
(`worker:*`, `host:*`, `agent:*`, those of a run) follow their owner; other limits change by
`set_limit` alone, and a process configured differently is refused. A stopped agent is started by no
process until a person resumes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.admission import provider_pressure
from weft.admission.capacity import MOST
from weft.config import Stated, is_settable, suggest_limit
from weft.errors import InputError, LimitsDiffer
from weft.model import AgentUse, Limit, RandomId
from weft.store.database import Transaction
from weft.store.ledger import Ledger
from weft.store.store import reads, writes


@writes
def start_with(tx: Transaction, limits: Mapping[str, int]) -> None:
    """Give a new store its first limits."""
    if tx.one("identity"):
        return  # another process was faster, and its limits stand
    import secrets  # late: needed once per store, and every command would pay for the import

    tx.run("found_store", identity=secrets.token_hex(16))
    tx.many(
        "set_limit",
        [{"resource": name, "capacity": n, "owner": None} for name, n in limits.items()],
    )


@reads
def identity(tx: Transaction) -> RandomId:
    """Return the text that tells this store from every other."""
    row = tx.one("identity")
    assert row is not None, "a store that is open has its identity"
    return str(row["identity"])


@writes
def set_limit(tx: Transaction, resource: str, capacity: int, *, now: float) -> int | None:
    """Change a limit; return the previous value. A lower limit kills no attempt: it stops
    admissions."""
    refuse_unusable(resource, capacity)
    rows = {row["resource"]: row for row in tx.all("limits")}
    known = rows.get(resource)
    if known is None and not is_settable(resource):
        raise InputError(f"There is no limit {resource!r}.{suggest_limit(resource)}")
    owner = known["owner"] if known is not None else None
    if owner is not None and not owner.startswith("run:"):
        raise InputError(f"The limit {resource} is set by {owner}; change it there.")
    before = None if known is None else int(known["capacity"])
    _set(tx, resource, capacity, owner=owner, now=now, before=before)
    return before


def refuse_unusable(resource: str, capacity: int) -> None:
    """Refuse a name that cannot be printed and an amount out of range."""
    if not resource.isprintable():
        raise InputError(
            f"The limit {resource!r} has a character in its name that cannot be printed; "
            "leave it out."
        )
    if capacity < 0:
        raise InputError(f"The limit {resource} cannot be {capacity}; 0 pauses it.")
    if capacity > MOST:
        raise InputError(f"The limit {resource} cannot be {capacity}; the most is {MOST}.")


def own_limit(
    tx: Transaction, resource: str, capacity: int | None, *, owner: str, now: float
) -> None:
    """Set the limit of an owner, or drop it if the owner has none."""
    known = next((row for row in tx.all("limits") if row["resource"] == resource), None)
    before = None if known is None else int(known["capacity"])
    if before == capacity and (known is None or known["owner"] == owner):
        return
    if capacity is None:
        tx.run("drop_limit", resource=resource)
        tx.event("limit_dropped", now=now, resource=resource, owner=owner)
        tx.wake()
    else:
        _set(tx, resource, capacity, owner=owner, now=now, before=before)


def _set(
    tx: Transaction,
    resource: str,
    capacity: int,
    *,
    owner: str | None,
    now: float,
    before: int | None,
) -> None:
    refuse_unusable(resource, capacity)
    tx.run("set_limit", resource=resource, capacity=capacity, owner=owner)
    tx.event("limit_set", now=now, resource=resource, capacity=capacity, before=before)
    tx.wake()


@reads
def list_limits(tx: Transaction, *, now: float) -> list[Limit]:
    """List every limit with its use, and its effective amount after penalties."""
    ledger = Ledger(tx, now)
    return [
        Limit(
            resource=name,
            capacity=ledger.nominal[name],
            effective=ledger.effective[name],
            used=ledger.used.get(name, 0),
            owner=ledger.owners.get(name),
        )
        for name in sorted(ledger.nominal)
    ]


@reads
def differences(tx: Transaction, stated: Mapping[str, Stated]) -> list[str]:
    """List the differences of a configuration from the store, each a sentence with the remedy."""
    rows = {row["resource"]: int(row["capacity"]) for row in tx.all("limits")}
    return [
        f"{limit.source} says {name} = {limit.value}, the store has {rows.get(name, 'none')}: "
        f"run `weft limits set {name} {limit.value}`, or change {limit.source}."
        for name, limit in sorted(stated.items())
        if rows.get(name) != limit.value
    ]


@reads
def require_agreement(tx: Transaction, stated: Mapping[str, Stated]) -> None:
    """Refuse a configuration that differs from the store."""
    different = differences(tx, stated)
    if different:
        raise LimitsDiffer(" ".join(different))


def penalise(tx: Transaction, provider: str, *, now: float) -> int:
    """Lower the effective limit of a provider that reported a rate limit, for every process."""
    refuse_unusable(f"provider:{provider}", 0)
    worse = provider_pressure.raised(Ledger(tx, now).penalties.get(provider), now, tx.tuning)
    tx.run("set_penalty", provider=provider, level=worse.level, since=worse.since)
    tx.event("provider_penalised", now=now, provider=provider, level=worse.level)
    return worse.level


def stop_agent(tx: Transaction, agent: str, reason: str, *, now: float) -> None:
    """Admit no more tasks for this agent; its running attempts continue."""
    tx.run("stop_agent", agent=agent, reason=tx.redact(reason), since=now)
    tx.event("agent_stopped", now=now, agent=agent, reason=reason)


@writes
def resume_agent(tx: Transaction, agent: str, *, now: float) -> bool:
    """Let an agent start again; return False if it was not stopped."""
    if not tx.count("resume_agent", agent=agent):
        return False
    tx.event("agent_resumed", now=now, agent=agent)
    tx.wake()
    return True


@reads
def list_stopped(tx: Transaction, *, now: float) -> dict[str, str]:
    return dict(Ledger(tx, now).stopped)


@reads
def use_of_agents(tx: Transaction, agents: Iterable[str], *, now: float) -> dict[str, AgentUse]:
    """Count the running attempts of each agent, with its limit and the reason if it is stopped."""
    ledger = Ledger(tx, now)
    return {agent: _use(ledger, agent) for agent in agents}


def _use(ledger: Ledger, agent: str) -> AgentUse:
    resource = f"agent:{agent}"
    limit = ledger.nominal.get(resource, MOST)
    return AgentUse(
        running=ledger.used.get(resource, 0),
        limit=None if limit == MOST else limit,  # a stopped agent without a limit has the most
        stopped=ledger.stopped.get(agent),
    )
